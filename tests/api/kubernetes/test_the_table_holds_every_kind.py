"""The derived table, the kinds made of it, and what is said about them by hand fit together."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from shutil import which

import pytest

from pilothouse.api import kubernetes
from pilothouse.api.kubernetes import defaults, descriptions, enums, table
from pilothouse.meta.kind import Kind

SCRIPT = Path(__file__).parents[3] / "scripts/derive-kubernetes-table"
KINDS = [kind for resource in kubernetes.resources() for kind in resource.kinds]


def test_the_table_is_what_the_sources_say() -> None:
    if not which("go"):
        pytest.skip("deriving the table needs Go and the Kubernetes modules of its proxy")
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--check"], capture_output=True, text=True, check=False
    )
    if done.returncode and "go" in done.stderr and "mod" in done.stderr:
        pytest.skip(f"Kubernetes' modules can't be had: {done.stderr.strip().splitlines()[-1]}")

    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "source", [defaults.DEFAULTS, enums.ENUMS, descriptions.FIELDS], ids=["defaults", "enums", "words"]
)
def test_what_is_said_by_hand_is_about_fields_that_exist(source: dict[str, dict[str, object]]) -> None:
    for message, fields in source.items():
        known = set(table.schema(message).properties)
        if source is descriptions.FIELDS:
            # The words for what every object has are shared by kinds without a spec or a status.
            known |= {"spec", "status"}
        assert set(fields) <= known, message


def test_messages_that_are_described_exist() -> None:
    for message in descriptions.MESSAGES:
        assert table.schema(message).type == "object"


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: f"{kind.api_version}-{kind.name}")
def test_each_kind_explains_itself(kind: Kind) -> None:
    assert kind.schema.description
    for name, node in kind.schema.properties.items():
        assert node.description, f"{kind.name}.{name}"
    spec = kind.schema.properties.get("spec")
    if spec is not None and kind.name not in {"TokenReview"} and not kind.virtual:
        main = [name for name, node in spec.properties.items() if node.description]
        assert main, f"no field of {kind.name}'s spec is described"


def test_every_kind_of_the_design_is_served() -> None:
    served = {(kind.group, kind.version, kind.plural) for kind in KINDS}

    assert served == {
        ("", "v1", "namespaces"),
        ("", "v1", "nodes"),
        ("", "v1", "pods"),
        ("", "v1", "services"),
        ("", "v1", "endpoints"),
        ("", "v1", "configmaps"),
        ("", "v1", "secrets"),
        ("", "v1", "serviceaccounts"),
        ("", "v1", "persistentvolumeclaims"),
        ("", "v1", "persistentvolumes"),
        ("", "v1", "events"),
        ("events.k8s.io", "v1", "events"),
        ("", "v1", "podtemplates"),
        ("apps", "v1", "statefulsets"),
        ("apps", "v1", "deployments"),
        ("apps", "v1", "replicasets"),
        ("apps", "v1", "daemonsets"),
        ("batch", "v1", "jobs"),
        ("batch", "v1", "cronjobs"),
        ("apps", "v1", "controllerrevisions"),
        ("policy", "v1", "poddisruptionbudgets"),
        ("storage.k8s.io", "v1", "storageclasses"),
        ("storage.k8s.io", "v1", "volumeattributesclasses"),
        ("storage.k8s.io", "v1beta1", "volumeattributesclasses"),
        ("coordination.k8s.io", "v1", "leases"),
        ("discovery.k8s.io", "v1", "endpointslices"),
        ("rbac.authorization.k8s.io", "v1", "roles"),
        ("rbac.authorization.k8s.io", "v1", "clusterroles"),
        ("rbac.authorization.k8s.io", "v1", "rolebindings"),
        ("rbac.authorization.k8s.io", "v1", "clusterrolebindings"),
        ("authentication.k8s.io", "v1", "tokenreviews"),
        ("authentication.k8s.io", "v1", "selfsubjectreviews"),
        ("authentication.k8s.io", "v1beta1", "selfsubjectreviews"),
        ("authorization.k8s.io", "v1", "subjectaccessreviews"),
        ("authorization.k8s.io", "v1", "localsubjectaccessreviews"),
        ("authorization.k8s.io", "v1", "selfsubjectaccessreviews"),
        ("authorization.k8s.io", "v1", "selfsubjectrulesreviews"),
        ("certificates.k8s.io", "v1", "certificatesigningrequests"),
        ("apiextensions.k8s.io", "v1", "customresourcedefinitions"),
    }
    assert set(kubernetes.bodies()) == {"Binding", "Eviction", "Scale", "TokenRequest"}


def test_subresources_are_those_of_kubernetes() -> None:
    found = {}
    for kind in KINDS:
        below = {each.name for each in kind.subresources}
        below |= {"status"} if kind.status else set()
        below |= {"scale"} if kind.scale else set()
        if below:
            found[kind.plural] = below

    assert found == {
        "namespaces": {"status", "finalize"},
        "nodes": {"status", "proxy"},
        "pods": {"status", "eviction", "binding", "log", "exec", "attach"},
        "services": {"status"},
        "serviceaccounts": {"token"},
        "persistentvolumeclaims": {"status"},
        "persistentvolumes": {"status"},
        "statefulsets": {"status", "scale"},
        "deployments": {"status", "scale"},
        "replicasets": {"status", "scale"},
        "daemonsets": {"status"},
        "jobs": {"status"},
        "cronjobs": {"status"},
        "poddisruptionbudgets": {"status"},
        "certificatesigningrequests": {"status", "approval"},
        "customresourcedefinitions": {"status"},
    }


def test_merge_keys_come_from_the_table() -> None:
    containers = table.schema("api.core.v1.PodSpec").properties["containers"]
    ports = table.schema("api.core.v1.Container").properties["ports"]

    assert (containers.list_type, containers.list_map_keys, containers.merge_key) == (
        "map",
        ("name",),
        "name",
    )
    assert ports.list_map_keys == ("containerPort", "protocol")
    assert ports.items is not None
    assert ports.items.properties["protocol"].default == "TCP"
