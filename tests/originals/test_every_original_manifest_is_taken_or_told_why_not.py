"""Every manifest of the three systems that this one follows, as it is written: taken, or refused with an error of its own.

The files below ``manifests`` have the fields and values of the originals, from quick starts, test data and pages; what those have as templates is
filled in. The manifests of the founding documents are in ``tests/originals/seeds``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.kit.core import CoreServer
from tests.kit.elasticsearch_harness import ElasticsearchHarness
from tests.kit.http import Http
from tests.kit.kubectl import Kubectl
from tests.kit.manifests import load
from tests.kit.servers import Target

from pilothouse.api.kind_names import StatefulSet
from pilothouse.api.registry import resources
from pilothouse.apiserver.discovery.catalog import KindCatalog, ServedVersion

Json = dict[str, Any]
FOLDER = Path(__file__).parent / "manifests"
NAMESPACES = ("foo", "kube-system", "navigator", "ns1", "pg1")
"""That the manifests name, and expect to be there."""


class Original(NamedTuple):
    file: str
    origin: str
    """Where it is, in the repository or the documentation of the system."""
    refused: tuple[str, ...] = ()
    """What kubectl says of each object that is not taken."""

    @property
    def path(self) -> Path:
        return FOLDER / self.file

    @property
    def objects(self) -> list[Json]:
        return load(self.path)


def no_kind(kind: str, version: str) -> str:
    return f'no matches for kind "{kind}" in version "{version}"'


def unknown(*paths: str) -> str:
    return "strict decoding error: " + ", ".join(f'unknown field "{path}"' for path in paths)


NAVIGATOR = (
    Original("navigator/es-cluster-demo.yaml", "docs/quick-start/es-cluster-demo.yaml"),
    Original("navigator/cassandra-cluster.yaml", "docs/quick-start/cassandra-cluster.yaml"),
    Original(
        "navigator/sysctl-daemonset.yaml",
        "docs/quick-start/sysctl-daemonset.yaml",
        (no_kind("DaemonSet", "extensions/v1beta1"),),
    ),
    Original("navigator/storage-class.yaml", "docs/quick-start/storage-class.yaml"),
    Original(
        "navigator/deployment-navigator.yaml",
        "docs/quick-start/deployment-navigator.yaml",
        (
            no_kind("Deployment", "extensions/v1beta1"),
            no_kind("APIService", "apiregistration.k8s.io/v1beta1"),
        ),
    ),
    Original(
        "navigator/couchbase-cluster-demo.yaml",
        "docs/quick-start/couchbase-cluster-demo.yaml",
        (no_kind("CouchbaseCluster", "navigator.jetstack.io/v1alpha1"),),
    ),
    Original(
        "navigator/es-cluster-demo-of-marshal.yaml",
        "docs/quick-start/es-cluster-demo.yaml, before the project had its name",
        (no_kind("ElasticsearchCluster", "marshal.io/v1alpha1"),),
    ),
    Original(
        "navigator/es-cluster-mixed-of-marshal.yaml",
        "docs/quick-start/es-cluster-mixed.yaml and examples/mixed-role-example.yaml",
        (no_kind("ElasticsearchCluster", "alpha.marshal.io/v1"),),
    ),
    Original(
        "navigator/es-cluster-tpr.yaml",
        "examples/es-cluster-tpr.yaml",
        (no_kind("ThirdPartyResource", "extensions/v1beta1"),),
    ),
    Original(
        "navigator/cassandra-cluster-first.yaml",
        "docs/quick-start/cassandra-cluster.yaml, first edition",
        (unknown("spec.sysctl"),),
    ),
    Original("navigator/cassandra-multi-zone.yaml", "docs/cassandra.rst, docs/cassandra/multi-az.md"),
    Original("navigator/cassandra-one-rack.yaml", "docs/cassandra.rst"),
    Original("navigator/scheduler-of-pools.yaml", "docs/configure-scheduler.rst, docs/paused-clusters.rst"),
    Original(
        "navigator/scheduler-of-cluster.yaml",
        "docs/configure-scheduler.rst",
        (unknown("spec.schedulerName"),),
    ),
    Original("navigator/es-cluster-test.yaml", "hack/testdata/es-cluster-test.template.yaml"),
    Original(
        "navigator/es-cluster-test-first.yaml",
        "hack/testdata/es-cluster-test.yaml",
        (unknown("spec.image.fsGroup", "spec.nodePools[0].config", "spec.pilot", "spec.sysctl"),),
    ),
    Original("navigator/cass-cluster-test.yaml", "hack/testdata/cass-cluster-test.template.yaml"),
    Original(
        "navigator/cass-cluster-test-older.yaml",
        "hack/testdata/cass-cluster-test.template.yaml, an earlier edition",
        (unknown("spec.cqlPort", "spec.sysctls"),),
    ),
    Original("navigator/testpilot.yaml", "hack/testdata/testpilot.yaml"),
    Original("navigator/testpilot-first.yaml", "hack/testdata/testpilot.yaml, first edition"),
    Original("navigator/integration-pilot.yaml", "test/integration/testdata/pilot.yaml"),
    Original(
        "navigator/integration-pilot-definition.yaml",
        "test/integration/testdata/pilot_crd.yaml",
        (no_kind("CustomResourceDefinition", "apiextensions.k8s.io/v1beta1"),),
    ),
    Original("navigator/es-cluster-three-zones.yaml", "qcon/es-cluster-demo.yaml"),
    Original("navigator/cassandra-three-zones.yaml", "qcon/cassandra-cluster.yaml"),
    Original("navigator/storage-class-of-a-zone.yaml", "qcon/sc-b.yaml and its like"),
    Original(
        "navigator/chart-cassandra.yaml",
        "contrib/charts/cassandra",
        (unknown("spec.cqlPort", "spec.sysctls"),),
    ),
    Original(
        "navigator/chart-navigator.yaml",
        "contrib/charts/navigator",
        (no_kind("ClusterRole", "rbac.authorization.k8s.io/v1beta1"),),
    ),
)
K0S = (
    Original("k0s/multi-command.yaml", "docs/autopilot-multicommand.md"),
    Original("k0s/update-config-of-a-release.yaml", "the announcement of 1.28"),
    Original("k0s/update-server-token.yaml", "the Secret that an update server's token is in"),
    Original("k0s/ap-single.yaml", "inttest/ap-single, inttest/kubeletcertrotate"),
    Original("k0s/ap-platformselect.yaml", "inttest/ap-platformselect"),
    Original("k0s/ap-quorum.yaml", "inttest/ap-quorum, inttest/ap-quorumsafety, inttest/ap-controllerworker"),
    Original("k0s/ap-quorumsafety-node.yaml", "inttest/ap-quorumsafety"),
    Original("k0s/ap-ha3x3.yaml", "inttest/ap-ha3x3"),
    Original("k0s/ap-selector.yaml", "inttest/ap-selector"),
    Original("k0s/ap-airgap.yaml", "inttest/ap-airgap"),
    Original("k0s/ap-airgap-controllerworker.yaml", "inttest/ap-airgap-controllerworker"),
    Original("k0s/ap-removedapis.yaml", "inttest/ap-removedapis"),
    Original("k0s/ap-signalerror.yaml", "inttest/ap-signalerror"),
    Original("k0s/ap-updater.yaml", "inttest/ap-updater"),
    Original("k0s/ap-updater-periodic.yaml", "inttest/ap-updater-periodic"),
    Original(
        "k0s/proposed-registry.yaml",
        "docs/architecture/adr-001, which proposes it",
        (unknown("spec.commands[0].k0supdate.platforms.linux-amd64.secretRef"),),
    ),
)
OPENSTORAGE = (
    Original("openstorage/volume-resize.yaml", "documentation: expand PVCs"),
    Original("openstorage/auto-volume-resize.yaml", "documentation: expand PVCs"),
    Original("openstorage/volume-resize-as-stored.yaml", "a rule as the engine writes it back"),
    Original("openstorage/volume-resize-with-approval.yaml", "documentation: approvals"),
    Original("openstorage/action-approval.yaml", "documentation: approvals"),
    Original("openstorage/pool-expand.yaml", "documentation: expand pools"),
    Original("openstorage/pool-expand-till-400.yaml", "documentation: expand pools"),
    Original("openstorage/pool-expand-in-windows.yaml", "documentation: action windows"),
    Original("openstorage/pool-expand-datadog.yaml", "documentation: Datadog"),
    Original("openstorage/pool-rebalance.yaml", "documentation: rebalance pools"),
    Original("openstorage/pool-rebalance-absolute.yaml", "documentation: rebalance pools"),
    Original(
        "openstorage/list-of-conditions.yaml",
        "documentation: reference, where conditions are a list",
        ("spec.conditions in body must be of type object",),
    ),
    Original("openstorage/postgres-claim.yaml", "documentation: expand PVCs"),
    Original("openstorage/autopilot-config.yaml", "documentation: install"),
    Original("openstorage/github-token.yaml", "documentation: GitOps"),
    Original(
        "openstorage/policy-example.yaml",
        "etc/policy-example.yaml",
        (no_kind("StoragePolicy", "autopilot.libopenstorage.org/v1alpha1"),),
    ),
)
ORIGINALS = (*NAVIGATOR, *K0S, *OPENSTORAGE)
EACH = pytest.mark.parametrize("original", ORIGINALS, ids=lambda original: original.file)


def test_every_file_is_on_the_list() -> None:
    assert sorted(str(path.relative_to(FOLDER)) for path in FOLDER.rglob("*.yaml")) == sorted(
        original.file for original in ORIGINALS
    )


@pytest.mark.kubectl
async def test_kubectl_takes_each_or_says_what_is_wrong_with_it(
    target: Target, http: Http, kubectl: Kubectl
) -> None:
    if target.name == "kube":
        pytest.skip("a real kube-apiserver does not have these kinds until their CRDs are applied")
    for name in NAMESPACES:
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        (await http.post("/api/v1/namespaces", namespace)).expect(201, 409)
    done = await kubectl("apply", "--dry-run=server", "-R", "-f", str(FOLDER))
    refused = complaints(done.err)
    assert refused.keys() == {original.file for original in ORIGINALS if original.refused}
    for original in ORIGINALS:
        told = refused.get(original.file, [])
        assert len(told) == len(original.refused), told
        for said, expected in zip(told, original.refused, strict=True):
            assert expected in said
    taken = sum(len(original.objects) - len(original.refused) for original in ORIGINALS)
    assert len(done.out.splitlines()) == taken


def complaints(text: str) -> dict[str, list[str]]:
    """What kubectl said of each file that it could not apply."""
    found: dict[str, list[str]] = {}
    pattern = rf'(?:from|error when creating) "{re.escape(str(FOLDER))}/([^"]+)": (.+)'
    for file, said in re.findall(pattern, text):
        found.setdefault(file, []).append(said)
    return found


@pytest.fixture(scope="module")
def core() -> Iterator[CoreServer]:
    with CoreServer() as core:
        for name in NAMESPACES:
            core.send("POST", "/api/v1/namespaces", {"metadata": {"name": name}}).expect(201, 409)
        yield core


class TestWhatIsTaken:
    @EACH
    def test_is_stored_as_it_was_written(self, original: Original, core: CoreServer) -> None:
        taken = 0
        for obj in original.objects:
            served = KindCatalog(resources()).of_kind(obj["apiVersion"], obj["kind"])
            if served is None:
                continue
            path = collection_of(served, obj)
            answer = core.send("POST", path, obj, query="fieldValidation=Strict")
            if answer.status not in (201, 409):
                continue
            taken += 1
            name = obj["metadata"]["name"]
            stored = core.send("GET", f"{path}/{name}").expect(200)
            if answer.status == 201:
                assert missing(written(obj), stored) == []
                assert bool(served.kind.unattended) == any(
                    "no controller" in each for each in answer.warnings
                )
                core.send("DELETE", f"{path}/{name}").expect(200)
        assert taken == len(original.objects) - len(original.refused)

    @pytest.mark.parametrize(
        ("file", "sets"),
        [
            ("es-cluster-demo.yaml", {"es-demo-master": (3, "10Gi"), "es-demo-mixed": (2, "10Gi")}),
            ("es-cluster-test.yaml", {"es-test-mixed": (1, None)}),
            (
                "es-cluster-three-zones.yaml",
                {
                    "es-demo-nodes-b": (1, "10Gi"),
                    "es-demo-nodes-c": (1, "10Gi"),
                    "es-demo-nodes-d": (1, "10Gi"),
                    "es-demo-data-nodes-b": (2, "10Gi"),
                },
            ),
        ],
    )
    def test_of_elasticsearch_gets_its_nodes_and_volumes(
        self, file: str, sets: dict[str, tuple[int, str | None]], core: CoreServer
    ) -> None:
        [obj] = load(FOLDER / "navigator" / file)
        path = "/apis/navigator.jetstack.io/{}/namespaces/default/elasticsearchclusters"
        core.send("POST", path.format("v1alpha1"), obj).expect(201)
        at = f"{path.format('v1beta1')}/{obj['metadata']['name']}"
        stored = core.send("GET", at).expect(200)
        core.send("DELETE", at).expect(200)
        # Pilots do not run the version that it names: it says so, and no pod waits for an image in vain.
        refused = ElasticsearchHarness()
        cluster = refused.add(stored)
        refused.run_until_idle(cluster)
        assert refused.all(StatefulSet) == []
        assert "6.8, 7 or 8" in refused.message(cluster, "VersionAccepted")
        harness = ElasticsearchHarness()
        cluster = harness.add({**stored, "spec": {**stored["spec"], "version": "8.17.0"}})
        harness.run_until_idle(cluster)
        for name, (replicas, size) in sets.items():
            found = harness.of(StatefulSet, name)
            assert found.spec["replicas"] == replicas
            claims = found.spec.get("volumeClaimTemplates") or []
            sizes = [claim["spec"]["resources"]["requests"]["storage"] for claim in claims]
            assert sizes == ([size] if size else [])


def collection_of(served: ServedVersion, obj: Json) -> str:
    kind = served.kind
    root = f"/apis/{kind.api_version}" if kind.group else f"/api/{kind.version}"
    if not kind.namespaced:
        return f"{root}/{kind.plural}"
    return f"{root}/namespaces/{obj['metadata'].get('namespace', 'default')}/{kind.plural}"


def written(obj: Json) -> Json:
    """What has to come back: all but the status, which is not for whoever creates, and what a server writes otherwise."""
    kept = {name: value for name, value in obj.items() if name not in ("status", "stringData")}
    kept["metadata"] = {name: value for name, value in obj["metadata"].items() if name != "namespace"}
    return kept


def missing(wanted: Any, found: Any, path: str = "") -> list[str]:
    """The paths of what was written and is not there as it was written; a null is the same as nothing."""
    if wanted is None:
        return []
    if isinstance(wanted, dict) and isinstance(found, dict):
        return [
            each
            for name, value in wanted.items()
            for each in missing(value, found.get(name), f"{path}.{name}")
        ]
    if isinstance(wanted, list) and isinstance(found, list) and len(wanted) == len(found):
        pairs = enumerate(zip(wanted, found, strict=True))
        return [each for index, pair in pairs for each in missing(*pair, f"{path}[{index}]")]
    return [] if wanted == found or (wanted in ({}, []) and found is None) else [path]
