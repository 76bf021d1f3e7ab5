"""Some fields are settled once: which ones, and how a person is told."""

from __future__ import annotations

import copy
from base64 import b64encode
from typing import Any

import pytest

from pilothouse.meta.kind import Object

PEM = b64encode(b"-----BEGIN CERTIFICATE REQUEST-----\n").decode()

PODS_MAY = "spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`"
SETS_MAY = (
    "spec: Forbidden: updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', "
    "'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
)


class TestPods:
    @pytest.mark.parametrize(
        ("path", "value"),
        [
            ("spec.containers.0.image", "db:2"),
            ("spec.activeDeadlineSeconds", 60),
            ("spec.tolerations", [{"key": "a", "operator": "Exists"}]),
            ("metadata.labels", {"a": "b"}),
        ],
    )
    def test_images_deadlines_and_tolerations_may_change(
        self, kinds: Any, pod: Object, path: str, value: Any
    ) -> None:
        assert kinds.change(kinds.create(pod), path, value) == []

    @pytest.mark.parametrize(
        ("path", "value"),
        [
            ("spec.containers.0.command", ["x"]),
            ("spec.restartPolicy", "Never"),
            ("spec.nodeName", "n2"),
            ("spec.volumes", [{"name": "v", "emptyDir": {}}]),
            ("spec.terminationGracePeriodSeconds", 1),
        ],
    )
    def test_the_rest_may_not(self, kinds: Any, pod: Object, path: str, value: Any) -> None:
        problems = kinds.change(kinds.create(pod), path, value)

        assert len(problems) == 1
        assert problems[0].startswith(PODS_MAY)
        assert path.split(".")[1] in problems[0].rpartition("changed:")[2]

    def test_containers_are_neither_added_nor_removed(self, kinds: Any, pod: Object) -> None:
        more = [*pod["spec"]["containers"], {"name": "other", "image": "x"}]

        problems = kinds.change(kinds.create(pod), "spec.containers", more)

        assert problems == ["spec.containers: Forbidden: pod updates may not add or remove containers"]

    def test_a_deadline_only_gets_shorter(self, kinds: Any, pod: Object) -> None:
        pod["spec"]["activeDeadlineSeconds"] = 60
        stored = kinds.create(pod)

        assert kinds.change(stored, "spec.activeDeadlineSeconds", 30) == []
        assert (
            "must be less than or equal to previous value"
            in kinds.change(stored, "spec.activeDeadlineSeconds", 90)[0]
        )
        assert (
            "must not update from a positive integer to nil"
            in kinds.change(stored, "spec.activeDeadlineSeconds", None)[0]
        )

    def test_tolerations_are_only_added(self, kinds: Any, pod: Object) -> None:
        pod["spec"]["tolerations"] = [{"key": "a", "operator": "Exists"}]

        problems = kinds.change(kinds.create(pod), "spec.tolerations", [{"key": "b", "operator": "Exists"}])

        assert problems == [
            "spec.tolerations: Forbidden: existing toleration can not be modified except its tolerationSeconds"
        ]


class TestStatefulSets:
    @pytest.mark.parametrize(
        ("path", "value"),
        [
            ("spec.replicas", 5),
            ("spec.minReadySeconds", 5),
            ("spec.revisionHistoryLimit", 1),
            ("spec.updateStrategy", {"type": "OnDelete"}),
            ("spec.template.spec.containers.0.image", "db:2"),
            ("spec.ordinals", {"start": 3}),
            ("spec.persistentVolumeClaimRetentionPolicy.whenDeleted", "Delete"),
        ],
    )
    def test_size_and_template_may_change(
        self, kinds: Any, stateful_set: Object, path: str, value: Any
    ) -> None:
        assert kinds.change(kinds.create(stateful_set), path, value) == []

    @pytest.mark.parametrize(
        ("path", "value"),
        [
            ("spec.serviceName", "other"),
            ("spec.podManagementPolicy", "Parallel"),
            ("spec.volumeClaimTemplates.0.spec.resources.requests.storage", "2Gi"),
        ],
    )
    def test_identity_and_storage_may_not(
        self, kinds: Any, stateful_set: Object, path: str, value: Any
    ) -> None:
        assert kinds.change(kinds.create(stateful_set), path, value) == [SETS_MAY]

    def test_the_selector_may_not(self, kinds: Any, stateful_set: Object) -> None:
        stored = kinds.create(stateful_set)
        new = copy.deepcopy(stored)
        new["spec"]["selector"] = {"matchLabels": {"app": "b"}}
        new["spec"]["template"]["metadata"]["labels"] = {"app": "b"}

        assert kinds.update(new, stored)[1] == [SETS_MAY]


class TestClaims:
    @pytest.fixture
    def bound(self, kinds: Any) -> Object:
        claim = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "c"},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": "fast",
                "volumeName": "v",
                "resources": {"requests": {"storage": "2Gi"}},
            },
        }
        stored: Object = kinds.create(claim)
        stored["status"] = {"phase": "Bound", "capacity": {"storage": "2Gi"}}
        return stored

    def test_a_bound_claim_may_grow_and_change_its_attributes(self, kinds: Any, bound: Object) -> None:
        assert kinds.change(bound, "spec.resources.requests.storage", "3Gi") == []
        assert kinds.change(bound, "spec.volumeAttributesClassName", "gold") == []

    def test_it_may_not_shrink(self, kinds: Any, bound: Object) -> None:
        assert kinds.change(bound, "spec.resources.requests.storage", "1Gi") == [
            "spec.resources.requests.storage: Forbidden: field can not be less than status.capacity"
        ]

    def test_a_failed_growth_may_be_taken_back_partly(self, kinds: Any, bound: Object) -> None:
        bound["spec"]["resources"]["requests"]["storage"] = "9Gi"

        assert kinds.change(bound, "spec.resources.requests.storage", "3Gi") == []

    @pytest.mark.parametrize(
        ("path", "value"),
        [("spec.accessModes", ["ReadOnlyMany"]), ("spec.storageClassName", "slow"), ("spec.volumeName", "w")],
    )
    def test_nothing_else_may_change(self, kinds: Any, bound: Object, path: str, value: Any) -> None:
        problems = kinds.change(bound, path, value)

        assert problems[0].startswith(
            "spec: Forbidden: spec is immutable after creation except resources.requests"
        )
        assert problems[0].endswith(path.rpartition(".")[2])

    def test_a_claim_that_waits_may_be_bound_but_not_grow(self, kinds: Any, bound: Object) -> None:
        bound["status"] = {"phase": "Pending"}
        del bound["spec"]["volumeName"]

        assert kinds.change(bound, "spec.volumeName", "v") == []
        assert kinds.change(bound, "spec.resources.requests.storage", "3Gi")[0].startswith("spec: Forbidden")


class TestConfiguration:
    @pytest.mark.parametrize("kind", ["ConfigMap", "Secret"])
    def test_frozen_data_stays(self, kinds: Any, kind: str) -> None:
        stored = kinds.create(
            {
                "apiVersion": "v1",
                "kind": kind,
                "metadata": {"name": "c"},
                "immutable": True,
                "data": {"a": "YQ=="},
            }
        )
        word = "field is immutable when `immutable` is set"

        assert kinds.change(stored, "data", {"a": "Yg=="}) == [f"data: Forbidden: {word}"]
        assert kinds.change(stored, "immutable", False) == [f"immutable: Forbidden: {word}"]
        assert kinds.change(stored, "metadata.labels", {"a": "b"}) == []

    def test_a_secret_keeps_its_type(self, kinds: Any) -> None:
        stored = kinds.create({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}})

        assert kinds.change(stored, "type", "x/y") == ['type: Invalid value: "x/y": field is immutable']


def test_a_binding_keeps_its_role(kinds: Any) -> None:
    stored = kinds.create(
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": {"name": "b"},
            "roleRef": {"kind": "Role", "name": "r"},
        }
    )

    (problem,) = kinds.change(stored, "roleRef.name", "other")

    assert problem.startswith("roleRef: Invalid value: ")
    assert problem.endswith("cannot change roleRef")


def test_a_revision_keeps_its_data(kinds: Any) -> None:
    stored = kinds.create(
        {
            "apiVersion": "apps/v1",
            "kind": "ControllerRevision",
            "metadata": {"name": "r"},
            "data": {"a": 1},
            "revision": 1,
        }
    )

    assert kinds.change(stored, "revision", 2) == []
    assert kinds.change(stored, "data", {"a": 2}) == ['data: Invalid value: {"a":2}: field is immutable']


def test_a_storage_class_keeps_its_provisioner(kinds: Any) -> None:
    stored = kinds.create(
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": "c"},
            "provisioner": "a.io/b",
        }
    )

    assert kinds.change(stored, "provisioner", "a.io/c") == [
        "provisioner: Forbidden: updates to provisioner are forbidden."
    ]
    assert kinds.change(stored, "allowVolumeExpansion", True) == []


def test_finalizers_of_a_namespace_change_elsewhere(kinds: Any) -> None:
    stored = kinds.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "t"}})
    new = {**stored, "spec": {"finalizers": []}}

    assert kinds.update(new, stored)[0]["spec"] == {"finalizers": ["kubernetes"]}


def test_a_service_sent_as_written_keeps_its_address(kinds: Any) -> None:
    written = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "db"},
        "spec": {"type": "NodePort", "ports": [{"port": 80}]},
    }
    stored = kinds.create(written)
    stored["spec"].update({"clusterIP": "10.0.0.7", "clusterIPs": ["10.0.0.7"]})
    stored["spec"]["ports"][0]["nodePort"] = 30007

    new, problems = kinds.update(written, stored)

    assert problems == []
    assert new["spec"]["clusterIP"] == "10.0.0.7"
    assert new["spec"]["ports"][0]["nodePort"] == 30007


def test_a_service_does_not_move(kinds: Any) -> None:
    stored = kinds.create(
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "db"}, "spec": {"ports": [{"port": 80}]}}
    )
    stored["spec"].update({"clusterIP": "10.0.0.7", "clusterIPs": ["10.0.0.7"]})
    new = copy.deepcopy(stored)
    new["spec"].update({"clusterIP": "10.0.0.8", "clusterIPs": ["10.0.0.8"]})

    assert kinds.update(new, stored)[1] == [
        'spec.clusterIPs[0]: Invalid value: ["10.0.0.8"]: may not change once set'
    ]


def test_a_certificate_request_never_changes_but_gets_its_verdict(kinds: Any) -> None:
    stored = kinds.create(
        {
            "apiVersion": "certificates.k8s.io/v1",
            "kind": "CertificateSigningRequest",
            "metadata": {"name": "c"},
            "spec": {"request": PEM, "signerName": "a.io/b", "usages": ["client auth"]},
        }
    )
    new = copy.deepcopy(stored)
    new["spec"]["usages"] = ["server auth"]

    assert kinds.update(new, stored)[0]["spec"]["usages"] == ["client auth"]

    approved = {"type": "Approved", "status": "True"}
    stored["status"] = {"conditions": [approved]}
    kind = kinds.kind("CertificateSigningRequest")
    both = {**stored, "status": {"conditions": [approved, {"type": "Denied", "status": "True"}]}}
    none = {**stored, "status": {"conditions": []}}

    assert "mutually exclusive" in str(next(iter(kind.validate(both, stored))))
    assert 'may not remove a condition of type "Approved"' in str(next(iter(kind.validate(none, stored))))
