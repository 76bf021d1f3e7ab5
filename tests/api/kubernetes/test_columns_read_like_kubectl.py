"""``kubectl get`` shows Kubernetes' kinds as Kubernetes does."""

from __future__ import annotations

from typing import Any

import pytest

from pilothouse.api import kubernetes
from pilothouse.base.rfc3339 import format_time
from pilothouse.meta.kind import Object

NOW = 1_700_000_000.0
META = {"name": "x", "creationTimestamp": format_time(NOW - 300)}


def running(ready: bool = True, restarts: int = 0, **more: Any) -> Object:
    state = {"running": {"startedAt": format_time(NOW)}}
    return {"name": "db", "ready": ready, "restartCount": restarts, "state": state, **more}


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({"phase": "Pending"}, ("0/1", "Pending", "0")),
        ({"phase": "Running", "containerStatuses": [running()]}, ("1/1", "Running", "0")),
        ({"phase": "Running", "containerStatuses": [running(ready=False)]}, ("0/1", "Running", "0")),
        (
            {
                "phase": "Running",
                "containerStatuses": [
                    running(
                        restarts=3,
                        lastState={"terminated": {"exitCode": 1, "finishedAt": format_time(NOW - 120)}},
                    )
                ],
            },
            ("1/1", "Running", "3 (2m ago)"),
        ),
        (
            {
                "phase": "Pending",
                "containerStatuses": [{"name": "db", "state": {"waiting": {"reason": "ErrImagePull"}}}],
            },
            ("0/1", "ErrImagePull", "0"),
        ),
        (
            {
                "phase": "Failed",
                "containerStatuses": [{"name": "db", "state": {"terminated": {"exitCode": 3}}}],
            },
            ("0/1", "ExitCode:3", "0"),
        ),
        (
            {
                "phase": "Failed",
                "containerStatuses": [{"name": "db", "state": {"terminated": {"signal": 9}}}],
            },
            ("0/1", "Signal:9", "0"),
        ),
        (
            {
                "phase": "Succeeded",
                "containerStatuses": [
                    {"name": "db", "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}}
                ],
            },
            ("0/1", "Completed", "0"),
        ),
        (
            {
                "phase": "Pending",
                "conditions": [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}],
            },
            ("0/1", "SchedulingGated", "0"),
        ),
        ({"phase": "Failed", "reason": "Evicted"}, ("0/1", "Evicted", "0")),
    ],
)
def test_a_pod_in_one_line(kinds: Any, status: Object, expected: tuple[str, ...]) -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": META,
        "spec": {"containers": [{"name": "db"}]},
        "status": status,
    }

    row = kinds.row(pod, NOW)

    assert (row["Ready"], row["Status"], row["Restarts"]) == expected
    assert row["Age"] == "5m"


@pytest.mark.parametrize(
    ("statuses", "expected"),
    [
        ([{"name": "i", "state": {"running": {}}}], ("0/2", "Init:0/2")),
        (
            [{"name": "i", "state": {"terminated": {"exitCode": 0}}}, {"name": "s", "state": {}}],
            ("0/2", "Init:1/2"),
        ),
        ([{"name": "i", "state": {"terminated": {"exitCode": 2}}}], ("0/2", "Init:ExitCode:2")),
        (
            [{"name": "i", "state": {"waiting": {"reason": "CrashLoopBackOff"}}}],
            ("0/2", "Init:CrashLoopBackOff"),
        ),
        (
            [
                {"name": "i", "state": {"terminated": {"exitCode": 0}}},
                {"name": "s", "ready": True, "started": True, "state": {"running": {}}},
            ],
            ("1/2", "Pending"),
        ),
    ],
)
def test_a_pod_that_starts_shows_how_far_it_is(
    kinds: Any, statuses: list[Object], expected: tuple[str, str]
) -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": META,
        "spec": {
            "initContainers": [{"name": "i"}, {"name": "s", "restartPolicy": "Always"}],
            "containers": [{"name": "db"}],
        },
        "status": {"phase": "Pending", "initContainerStatuses": statuses},
    }

    row = kinds.row(pod, NOW)

    assert (row["Ready"], row["Status"]) == expected


def test_a_pod_that_goes_is_terminating(kinds: Any) -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**META, "deletionTimestamp": format_time(NOW)},
        "spec": {"containers": [{"name": "db"}], "nodeName": "n1"},
        "status": {"phase": "Running", "podIPs": [{"ip": "127.1.0.1"}], "containerStatuses": [running()]},
    }

    row = kinds.row(pod, NOW, wide=True)

    assert row["Status"] == "Terminating"
    assert (row["IP"], row["Node"], row["Nominated Node"], row["Readiness Gates"]) == (
        "127.1.0.1",
        "n1",
        "<none>",
        "<none>",
    )


CASES: list[tuple[Object, dict[str, Any]]] = [
    (
        {"apiVersion": "v1", "kind": "Namespace", "metadata": META, "status": {"phase": "Active"}},
        {"Name": "x", "Status": "Active", "Age": "5m"},
    ),
    (
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {**META, "labels": {"node-role.kubernetes.io/control-plane": ""}},
            "spec": {"unschedulable": True},
            "status": {
                "conditions": [{"type": "Ready", "status": "True"}],
                "nodeInfo": {"kubeletVersion": "v1", "osImage": "Debian"},
                "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
            },
        },
        {
            "Name": "x",
            "Status": "Ready,SchedulingDisabled",
            "Roles": "control-plane",
            "Age": "5m",
            "Version": "v1",
            "Internal-IP": "10.0.0.1",
            "External-IP": "<none>",
            "OS-Image": "Debian",
            "Kernel-Version": "<unknown>",
            "Container-Runtime": "<unknown>",
        },
    ),
    (
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": META,
            "spec": {
                "type": "NodePort",
                "clusterIPs": ["10.0.0.7"],
                "ports": [
                    {"port": 80, "nodePort": 30080, "protocol": "TCP"},
                    {"port": 53, "protocol": "UDP"},
                ],
                "selector": {"app": "db"},
            },
        },
        {
            "Name": "x",
            "Type": "NodePort",
            "Cluster-IP": "10.0.0.7",
            "External-IP": "<none>",
            "Port(s)": "80:30080/TCP,53/UDP",
            "Age": "5m",
            "Selector": "app=db",
        },
    ),
    (
        {
            "apiVersion": "v1",
            "kind": "Endpoints",
            "metadata": META,
            "subsets": [
                {"addresses": [{"ip": f"10.0.0.{index}"} for index in range(1, 6)], "ports": [{"port": 80}]}
            ],
        },
        {"Name": "x", "Endpoints": "10.0.0.1:80,10.0.0.2:80,10.0.0.3:80 + 2 more...", "Age": "5m"},
    ),
    (
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": META,
            "spec": {"volumeName": "v", "storageClassName": "fast", "volumeMode": "Filesystem"},
            "status": {"phase": "Bound", "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]},
        },
        {
            "Name": "x",
            "Status": "Bound",
            "Volume": "v",
            "Capacity": "1Gi",
            "Access Modes": "RWO",
            "StorageClass": "fast",
            "VolumeAttributesClass": "<unset>",
            "Age": "5m",
            "VolumeMode": "Filesystem",
        },
    ),
    (
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": META,
            "spec": {
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteOnce", "ReadOnlyMany"],
                "persistentVolumeReclaimPolicy": "Retain",
                "claimRef": {"namespace": "t", "name": "c"},
            },
            "status": {"phase": "Bound"},
        },
        {
            "Name": "x",
            "Capacity": "1Gi",
            "Access Modes": "RWO,ROX",
            "Reclaim Policy": "Retain",
            "Status": "Bound",
            "Claim": "t/c",
            "StorageClass": "",
            "VolumeAttributesClass": "<unset>",
            "Reason": "",
            "Age": "5m",
            "VolumeMode": "<unset>",
        },
    ),
    (
        {
            "apiVersion": "apps/v1",
            "kind": "StatefulSet",
            "metadata": META,
            "spec": {"replicas": 3, "template": {"spec": {"containers": [{"name": "a", "image": "b"}]}}},
            "status": {"readyReplicas": 2},
        },
        {"Name": "x", "Ready": "2/3", "Age": "5m", "Containers": "a", "Images": "b"},
    ),
    (
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": META,
            "spec": {"minAvailable": 2},
            "status": {"disruptionsAllowed": 1},
        },
        {"Name": "x", "Min Available": "2", "Max Unavailable": "N/A", "Allowed Disruptions": 1, "Age": "5m"},
    ),
    (
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {**META, "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
            "provisioner": "p",
            "reclaimPolicy": "Delete",
            "volumeBindingMode": "Immediate",
        },
        {
            "Name": "x (default)",
            "Provisioner": "p",
            "ReclaimPolicy": "Delete",
            "VolumeBindingMode": "Immediate",
            "AllowVolumeExpansion": False,
            "Age": "5m",
        },
    ),
    (
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": META,
            "type": "Opaque",
            "data": {"a": "", "b": ""},
        },
        {"Name": "x", "Type": "Opaque", "Data": 2, "Age": "5m"},
    ),
    (
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": META,
            "data": {"a": ""},
            "binaryData": {"b": ""},
        },
        {"Name": "x", "Data": 2, "Age": "5m"},
    ),
    (
        {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": META,
            "spec": {"holderIdentity": "me"},
        },
        {"Name": "x", "Holder": "me", "Age": "5m"},
    ),
    (
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": META,
            "roleRef": {"kind": "Role", "name": "r"},
            "subjects": [
                {"kind": "User", "name": "u"},
                {"kind": "Group", "name": "g"},
                {"kind": "ServiceAccount", "name": "s", "namespace": "t"},
            ],
        },
        {"Name": "x", "Role": "Role/r", "Age": "5m", "Users": "u", "Groups": "g", "ServiceAccounts": "t/s"},
    ),
    (
        {
            "apiVersion": "certificates.k8s.io/v1",
            "kind": "CertificateSigningRequest",
            "metadata": META,
            "spec": {"signerName": "a.io/b", "username": "u", "expirationSeconds": 7200},
            "status": {"conditions": [{"type": "Approved"}], "certificate": "LS0t"},
        },
        {
            "Name": "x",
            "Age": "5m",
            "SignerName": "a.io/b",
            "Requestor": "u",
            "RequestedDuration": "120m",
            "Condition": "Approved,Issued",
        },
    ),
    (
        {
            "apiVersion": "apps/v1",
            "kind": "ControllerRevision",
            "metadata": {
                **META,
                "ownerReferences": [
                    {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "controller": True}
                ],
            },
            "revision": 4,
        },
        {"Name": "x", "Controller": "statefulset.apps/db", "Revision": 4, "Age": "5m"},
    ),
    (
        {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": META,
            "addressType": "IPv4",
            "endpoints": [{"addresses": ["10.0.0.1"]}],
            "ports": [{"port": 80}],
        },
        {"Name": "x", "AddressType": "IPv4", "Ports": "80", "Endpoints": "10.0.0.1", "Age": "5m"},
    ),
    (
        {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": META,
            "type": "Warning",
            "reason": "Leak",
            "message": "water \n",
            "involvedObject": {"kind": "Pod", "name": "p", "fieldPath": "spec"},
            "source": {"component": "mate", "host": "ship"},
            "firstTimestamp": format_time(NOW - 60),
            "lastTimestamp": format_time(NOW - 30),
            "count": 4,
        },
        {
            "Last Seen": "30s",
            "Type": "Warning",
            "Reason": "Leak",
            "Object": "pod/p",
            "Subobject": "spec",
            "Source": "mate, ship",
            "Message": "water",
            "First Seen": "60s",
            "Count": 4,
            "Name": "x",
        },
    ),
]


@pytest.mark.parametrize(("obj", "expected"), CASES, ids=[case[0]["kind"] for case in CASES])
def test_an_object_in_one_line(kinds: Any, obj: Object, expected: dict[str, Any]) -> None:
    row = kinds.row(obj, NOW, wide=True)

    assert row == expected
    assert list(row) == list(expected)


def test_every_stored_kind_has_columns_with_its_name() -> None:
    for resource in kubernetes.resources():
        for kind in resource.kinds:
            names = [column.name for column in kind.columns]
            assert kind.virtual or ("Name" in names and len(names) > 1), kind.name
            assert all(column.description for column in kind.columns), kind.name
