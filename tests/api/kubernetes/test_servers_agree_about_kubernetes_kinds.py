"""The same manifests, good and faulty, sent to a running server: ours, and with ``--target=kube`` a real kube-apiserver.

So what the other tests here expect of defaults and messages is itself checked. Where a real one says something else,
``KUBERNETES`` says what, and the documentation why.
"""

from __future__ import annotations

import copy
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.api.kubernetes.cases import CONTAINER_FAULTS, FAULTS, GOOD, SPEC_FAULTS, with_change
from tests.kit.http import TABLE, Http
from tests.kit.servers import Target

from pilothouse.api import kubernetes
from pilothouse.meta.kind import Kind, Object

pytestmark = pytest.mark.conformance

POD: Object = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "db-0"},
    "spec": {
        "automountServiceAccountToken": False,
        "volumes": [{"name": "v", "emptyDir": {}}],
        "containers": [{"name": "db", "image": "db:1.0"}],
    },
}
RICH_POD: Object = {
    **POD,
    "spec": {
        "automountServiceAccountToken": False,
        "volumes": [
            {"name": "a"},
            {"name": "b", "configMap": {"name": "c"}},
            {"name": "h", "hostPath": {"path": "/x"}},
            {
                "name": "p",
                "projected": {
                    "sources": [
                        {"serviceAccountToken": {"path": "t"}},
                        {
                            "downwardAPI": {
                                "items": [{"path": "l", "fieldRef": {"fieldPath": "metadata.labels"}}]
                            }
                        },
                    ]
                },
            },
        ],
        "containers": [
            {
                "name": "db",
                "image": "db",
                "ports": [{"containerPort": 80}],
                "readinessProbe": {"httpGet": {"port": "http"}},
                "livenessProbe": {"exec": {"command": ["x"]}},
                "lifecycle": {"preStop": {"httpGet": {"port": 80}}},
                "env": [
                    {"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                    {"name": "A", "value": "again"},
                ],
                "resources": {"limits": {"cpu": 0.5, "memory": "1024Mi"}},
                "volumeMounts": [{"name": "a", "mountPath": "/a"}],
            }
        ],
    },
}
SERVICES: list[Object] = [
    {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}
    for name, spec in (
        ("headless", {"clusterIP": "None", "selector": {"a": "b"}, "ports": [{"port": 80}]}),
        ("node-port", {"type": "NodePort", "ports": [{"port": 80}], "sessionAffinity": "ClientIP"}),
        ("balanced", {"type": "LoadBalancer", "ports": [{"port": 80}]}),
        ("elsewhere", {"type": "ExternalName", "externalName": "a.b"}),
    )
]
TAKEN: list[Object] = [
    *(each for each in GOOD if each["kind"] not in ("TokenRequest", "Node")),
    POD,
    RICH_POD,
    *SERVICES,
    {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": "c"},
        "provisioner": "a.io/b",
    },
    {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "nn"}},
    {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {"name": "r"},
        "data": {"a": 1},
        "revision": 1,
    },
    {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "r"}},
]
GIVEN_OUT = {
    # By admission, by allocators, by the clock.
    "Pod": {"preemptionPolicy", "priority", "serviceAccount", "serviceAccountName", "tolerations"},
    "Service": {"clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "nodePort"},
    "PersistentVolume": {"lastPhaseTransitionTime"},
    "CustomResourceDefinition": {"acceptedNames", "conditions"},
    "CertificateSigningRequest": {"username", "groups", "uid", "extra"},
    "SubjectAccessReview": {"allowed", "reason"},
}

UNREADABLE: dict[str, int | str] = {
    "spec.renewTime: Invalid value": 400,
    "binaryData.a: Invalid value": 400,
    "data.a: Invalid value": 400,
}
OURS: dict[str, int | str] = {
    **UNREADABLE,
    # Whoever gives out addresses speaks first.
    'spec.clusterIPs[0]: Invalid value: "ten"': "spec.clusterIPs",
}
KUBERNETES: dict[str, int | str] = {
    **UNREADABLE,
    # Here, too, it fails while decoding, before it knows of fields.
    'spec.resources.requests[storage]: Invalid value: "big"': 400,
    'spec.containers[0].resources.limits[memory]: Invalid value: "lots"': 400,
    # It leaves indices out, or names a field of another version.
    'endpoints[0].addresses[0]: Invalid value: "10.0.0.1"': "endpoints[0].addresses",
    'spec.containers[0].volumeMounts[0].subPath: Invalid value: "../y"': "spec.containers[0].volumeMounts.subPath",
    'spec.taints[0].effect: Unsupported value: "Go"': "metadata.taints[0].effect",
    "spec.versions[0].additionalPrinterColumns[0].type": "spec.additionalPrinterColumns[0].type",
    "spec.versions[0].subresources.scale.specReplicasPath": "spec.subresources.scale.specReplicasPath",
    "spec.versions[0].selectableFields[0].jsonPath": "spec.selectableFields[0].jsonPath",
    ": Too long": "[]",
    # It calls webhooks.
    "spec.conversion.strategy: Forbidden": "spec.conversion.webhookClientConfig",
}


def refused() -> list[Any]:
    """Faulty manifests, each with what is expected to be said about it."""
    cases = [(with_change(manifest, path, value), expected) for manifest, path, value, expected in FAULTS]
    for fault, expected in CONTAINER_FAULTS:
        pod = copy.deepcopy(POD)
        pod["spec"]["containers"][0].update(copy.deepcopy(fault))
        cases.append((pod, expected))
    for fault, expected in SPEC_FAULTS:
        pod = copy.deepcopy(POD)
        pod["spec"].update(copy.deepcopy(fault))
        cases.append((pod, expected))
    return [
        pytest.param(manifest, expected, id=f"{manifest['kind']}: {expected[:60]}")
        for manifest, expected in cases
        if manifest["kind"] != "TokenRequest"
    ]


@pytest.fixture
async def client(target: Target) -> AsyncIterator[Http]:
    async with Http.to(target) as http:
        for namespace in ("default", "t"):
            await http.post("/api/v1/namespaces", {"metadata": {"name": namespace}})
            await http.post(
                f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": "default"}}
            )
        yield http


def collection(kinds: Any, manifest: Object) -> str:
    kind = kinds.kind(manifest["kind"], manifest["apiVersion"])
    base = f"/apis/{kind.group}/{kind.version}" if kind.group else "/api/v1"
    namespace = manifest.get("metadata", {}).get("namespace", "default")
    return f"{base}/namespaces/{namespace}/{kind.plural}" if kind.namespaced else f"{base}/{kind.plural}"


def plain(value: Any, ignored: set[str]) -> Any:
    """A value without nulls, empty maps and what the server gives out."""
    if isinstance(value, dict):
        inner = {key: plain(each, ignored) for key, each in value.items() if key not in ignored}
        return {key: each for key, each in inner.items() if each is not None and each != {}}
    return [plain(each, ignored) for each in value] if isinstance(value, list) else value


def unknown_to(target: Target, manifest: Object) -> bool:
    """A real server has this kind behind a feature gate."""
    return target.name == "kube" and manifest["kind"] == "VolumeAttributesClass"


@pytest.mark.parametrize(
    "manifest", TAKEN, ids=lambda each: f"{each['kind']}-{each.get('metadata', {}).get('name')}"
)
async def test_what_is_stored_is_the_same(kinds: Any, target: Target, client: Http, manifest: Object) -> None:
    if unknown_to(target, manifest):
        manifest = {
            **manifest,
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "provisioner": "a.io/b",
        }
        manifest.pop("driverName")
    answer = await client.post(collection(kinds, manifest), manifest, dryRun="All")

    stored = answer.expect(200, 201)

    ignored = {"metadata", *GIVEN_OUT.get(manifest["kind"], set())}
    assert plain(stored, ignored) == plain(kinds.create(manifest), ignored)


@pytest.mark.parametrize(("manifest", "expected"), refused())
async def test_what_is_refused_is_the_same(
    kinds: Any, target: Target, client: Http, manifest: Object, expected: str
) -> None:
    if unknown_to(target, manifest):
        expected = "provisioner: Required value"
        manifest = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "c"}}
    answer = await client.post(collection(kinds, manifest), manifest, dryRun="All")

    path: int | str = expected.partition(": ")[0]
    instead = KUBERNETES if target.name == "kube" else OURS
    path = next((said for start, said in instead.items() if expected.startswith(start)), path)
    if isinstance(path, int):
        assert answer.status == path, answer.message
        return
    assert answer.status == 422, json.dumps(answer.json)[:500]
    assert any(cause.field.startswith(path) for cause in answer.causes), answer.message


STORED = [kind for resource in kubernetes.resources() for kind in resource.kinds if not kind.virtual]


@pytest.mark.parametrize("kind", STORED, ids=lambda kind: f"{kind.api_version}-{kind.name}")
async def test_tables_have_the_same_columns(target: Target, client: Http, kind: Kind) -> None:
    base = f"/apis/{kind.group}/{kind.version}" if kind.group else "/api/v1"
    if kind.name == "VolumeAttributesClass" and target.name == "kube":
        answer = await client.get(f"{base}/{kind.plural}", accept=TABLE)
        assert answer.status == 404
        return
    table = (await client.get(f"{base}/{kind.plural}", accept=TABLE)).expect(200)

    shown = [
        (each["name"], each["type"], each["format"], each["priority"]) for each in table["columnDefinitions"]
    ]
    assert shown == [(each.name, each.type, each.format, each.priority) for each in kind.columns]


@pytest.mark.parametrize("kind", STORED, ids=lambda kind: f"{kind.api_version}-{kind.name}")
async def test_discovery_tells_the_same(target: Target, client: Http, kind: Kind) -> None:
    if kind.name == "VolumeAttributesClass" and target.name == "kube":
        kind = next(each for each in STORED if each.name == "StorageClass")
    base = f"/apis/{kind.group}/{kind.version}" if kind.group else "/api/v1"
    listed = (await client.get(base)).expect(200)["resources"]
    found = {each["name"]: each for each in listed if each["name"].partition("/")[0] == kind.plural}

    told = found[kind.plural]
    assert told["kind"] == kind.name
    assert told["namespaced"] == kind.namespaced
    assert told["singularName"] == kind.singular
    assert sorted(told.get("shortNames", ())) == sorted(kind.short_names)
    assert sorted(told.get("categories", ())) == sorted(kind.categories)
    assert sorted(told["verbs"]) == sorted(kind.verbs)
    below = {each.name: set(each.verbs) for each in kind.subresources}
    below |= {"status": {"get", "patch", "update"}} if kind.status else {}
    below |= {"scale": {"get", "patch", "update"}} if kind.scale else {}
    for name, verbs in below.items():
        assert set(found[f"{kind.plural}/{name}"]["verbs"]) == verbs
