"""What is stored when little is said."""

from __future__ import annotations

from typing import Any

import pytest

from pilothouse.api.kubernetes.pods.defaults import pull_policy
from pilothouse.api.kubernetes.pods.qos_class import quality_of_service


def test_a_pod_is_filled_in(kinds: Any, pod: dict[str, Any]) -> None:
    container = pod["spec"]["containers"][0]
    container["ports"] = [{"containerPort": 80}]
    container["readinessProbe"] = {"httpGet": {"port": "http"}}
    container["env"] = [{"name": "NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]
    pod["spec"]["volumes"] = [{"name": "scratch"}, {"name": "config", "configMap": {"name": "c"}}]

    stored = kinds.create(pod)

    assert stored["spec"] == {
        "containers": [
            {
                "name": "db",
                "image": "db:1.0",
                "imagePullPolicy": "IfNotPresent",
                "ports": [{"containerPort": 80, "protocol": "TCP"}],
                "readinessProbe": {
                    "httpGet": {"port": "http", "path": "/", "scheme": "HTTP"},
                    "timeoutSeconds": 1,
                    "periodSeconds": 10,
                    "successThreshold": 1,
                    "failureThreshold": 3,
                },
                "env": [
                    {
                        "name": "NAME",
                        "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}},
                    }
                ],
                "resources": {},
                "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File",
            }
        ],
        "volumes": [
            {"name": "scratch", "emptyDir": {}},
            {"name": "config", "configMap": {"name": "c", "defaultMode": 0o644}},
        ],
        "restartPolicy": "Always",
        "dnsPolicy": "ClusterFirst",
        "schedulerName": "default-scheduler",
        "securityContext": {},
        "terminationGracePeriodSeconds": 30,
        "enableServiceLinks": True,
    }
    assert stored["status"] == {"phase": "Pending", "qosClass": "BestEffort"}


def test_a_pod_with_limits_asks_for_them(kinds: Any, pod: dict[str, Any]) -> None:
    pod["spec"]["containers"][0]["resources"] = {
        "limits": {"cpu": 0.5, "memory": "1024Mi"},
        "requests": {"cpu": "250m"},
    }

    resources = kinds.create(pod)["spec"]["containers"][0]["resources"]

    assert resources == {
        "limits": {"cpu": "500m", "memory": "1Gi"},
        "requests": {"cpu": "250m", "memory": "1Gi"},
    }


def test_on_the_nodes_network_ports_are_the_nodes(kinds: Any, pod: dict[str, Any]) -> None:
    pod["spec"]["hostNetwork"] = True
    pod["spec"]["containers"][0]["ports"] = [{"containerPort": 80}]

    assert kinds.create(pod)["spec"]["containers"][0]["ports"][0]["hostPort"] == 80


def test_a_template_is_not_a_pod(kinds: Any, stateful_set: dict[str, Any]) -> None:
    template = stateful_set["spec"]["template"]["spec"]
    template["containers"][0]["resources"] = {"limits": {"cpu": 1}}

    stored = kinds.create(stateful_set)["spec"]["template"]["spec"]

    assert stored["containers"][0]["resources"] == {"limits": {"cpu": "1"}}
    assert "enableServiceLinks" not in stored
    assert stored["restartPolicy"] == "Always"


def test_a_stateful_set_is_filled_in(kinds: Any, stateful_set: dict[str, Any]) -> None:
    spec = kinds.create(stateful_set)["spec"]

    assert spec["replicas"] == 1
    assert spec["podManagementPolicy"] == "OrderedReady"
    assert spec["updateStrategy"] == {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}
    assert spec["revisionHistoryLimit"] == 10
    assert spec["persistentVolumeClaimRetentionPolicy"] == {"whenDeleted": "Retain", "whenScaled": "Retain"}
    assert spec["volumeClaimTemplates"][0] == {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "volumeMode": "Filesystem",
        },
        "status": {"phase": "Pending"},
    }


def test_an_update_strategy_without_rolling_stays_without(kinds: Any, stateful_set: dict[str, Any]) -> None:
    stateful_set["spec"]["updateStrategy"] = {"type": "OnDelete"}

    assert kinds.create(stateful_set)["spec"]["updateStrategy"] == {"type": "OnDelete"}


def test_a_service_leads_to_the_same_port(kinds: Any) -> None:
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "db"},
        "spec": {"ports": [{"port": 80}, {"port": 81, "targetPort": "http"}], "sessionAffinity": "ClientIP"},
    }

    spec = kinds.create(service)["spec"]

    assert [port["targetPort"] for port in spec["ports"]] == [80, "http"]
    assert [port["protocol"] for port in spec["ports"]] == ["TCP", "TCP"]
    assert spec["type"] == "ClusterIP"
    assert spec["internalTrafficPolicy"] == "Cluster"
    assert spec["sessionAffinityConfig"] == {"clientIP": {"timeoutSeconds": 10800}}
    assert "clusterIP" not in spec


def test_a_headless_service_needs_no_address(kinds: Any) -> None:
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "db"},
        "spec": {"clusterIP": "None", "selector": {"app": "db"}},
    }

    spec = kinds.create(service)["spec"]

    assert (spec["clusterIP"], spec["clusterIPs"]) == ("None", ["None"])
    assert (spec["ipFamilyPolicy"], spec["ipFamilies"]) == ("SingleStack", ["IPv4"])


def test_a_namespace_is_active_and_carries_its_name(kinds: Any) -> None:
    stored = kinds.create(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "t", "labels": {"a": "b"}}}
    )

    assert stored["metadata"]["labels"] == {"a": "b", "kubernetes.io/metadata.name": "t"}
    assert stored["spec"] == {"finalizers": ["kubernetes"]}
    assert stored["status"] == {"phase": "Active"}


def test_string_data_is_folded_and_wins(kinds: Any) -> None:
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "s"},
        "data": {"a": "b2xk", "b": "Yg=="},
        "stringData": {"a": "new"},
    }

    stored = kinds.create(secret)

    assert stored["data"] == {"a": "bmV3", "b": "Yg=="}
    assert "stringData" not in stored
    assert stored["type"] == "Opaque"


def test_subjects_get_their_group(kinds: Any) -> None:
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "b"},
        "roleRef": {"kind": "Role", "name": "r"},
        "subjects": [
            {"kind": "User", "name": "u"},
            {"kind": "ServiceAccount", "name": "s", "namespace": "t"},
        ],
    }

    stored = kinds.create(binding)

    assert stored["roleRef"]["apiGroup"] == "rbac.authorization.k8s.io"
    assert stored["subjects"][0]["apiGroup"] == "rbac.authorization.k8s.io"
    assert "apiGroup" not in stored["subjects"][1]


@pytest.mark.parametrize(
    ("manifest", "expected"),
    [
        ({"kind": "PersistentVolumeClaim", "apiVersion": "v1"}, {"phase": "Pending"}),
        ({"kind": "PersistentVolume", "apiVersion": "v1"}, {"phase": "Pending"}),
        ({"kind": "StatefulSet", "apiVersion": "apps/v1"}, {"availableReplicas": 0, "replicas": 0}),
    ],
    ids=lambda value: value.get("kind", "status"),
)
def test_a_new_object_waits_whatever_its_maker_says(
    kinds: Any, manifest: dict[str, Any], expected: dict[str, Any]
) -> None:
    assert (
        kinds.create(
            {**manifest, "status": {"phase": "Bound"} if "StatefulSet" not in manifest["kind"] else {}}
        )["status"]
        == expected
    )


def test_storage_classes_and_volumes_have_policies(kinds: Any) -> None:
    made = kinds.create({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "provisioner": "x.io/y"})
    volume = kinds.create({"apiVersion": "v1", "kind": "PersistentVolume"})

    assert (made["reclaimPolicy"], made["volumeBindingMode"]) == ("Delete", "Immediate")
    assert volume["spec"]["persistentVolumeReclaimPolicy"] == "Retain"
    assert volume["spec"]["volumeMode"] == "Filesystem"


def test_a_definition_names_itself(kinds: Any) -> None:
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "ships.harbour.example.io"},
        "spec": {
            "group": "harbour.example.io",
            "scope": "Namespaced",
            "names": {"plural": "ships", "kind": "Ship"},
            "versions": [{"name": "v1", "served": True, "storage": True}],
        },
    }

    stored = kinds.create(definition)

    assert stored["spec"]["names"] == {
        "plural": "ships",
        "kind": "Ship",
        "singular": "ship",
        "listKind": "ShipList",
    }
    assert stored["spec"]["conversion"] == {"strategy": "None"}
    assert stored["status"]["storedVersions"] == ["v1"]


def test_times_and_quantities_have_one_form(kinds: Any) -> None:
    lease = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "l"},
        "spec": {"renewTime": "2024-01-01T02:00:00.5+02:00"},
    }
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n"},
        "status": {"capacity": {"cpu": 2, "memory": "2048Mi"}},
    }

    assert kinds.complete(lease)["spec"]["renewTime"] == "2024-01-01T00:00:00.500000Z"
    assert kinds.complete(node)["status"]["allocatable"] == {"cpu": "2", "memory": "2Gi"}


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("db", "Always"),
        ("db:latest", "Always"),
        ("registry:5000/team/db", "Always"),
        ("db:1.0", "IfNotPresent"),
        ("registry:5000/team/db:1.0", "IfNotPresent"),
        ("db@sha256:abc", "IfNotPresent"),
    ],
)
def test_an_image_that_may_change_is_fetched_each_time(image: str, policy: str) -> None:
    assert pull_policy(image) == policy


@pytest.mark.parametrize(
    ("resources", "quality"),
    [
        ([{}], "BestEffort"),
        ([{"limits": {"cpu": "1", "memory": "1Gi"}}], "Guaranteed"),
        (
            [{"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1000m", "memory": "1Gi"}}],
            "Guaranteed",
        ),
        ([{"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}}], "Burstable"),
        ([{"limits": {"cpu": "1"}}], "Burstable"),
        ([{"requests": {"memory": "1Mi"}}], "Burstable"),
        ([{"limits": {"cpu": "1", "memory": "1Gi"}}, {}], "Burstable"),
        ([{"limits": {"ephemeral-storage": "1Gi"}}], "BestEffort"),
    ],
)
def test_quality_of_service_follows_requests_and_limits(resources: list[Any], quality: str) -> None:
    spec = {"containers": [{"name": str(index), "resources": each} for index, each in enumerate(resources)]}

    assert quality_of_service(spec) == quality
