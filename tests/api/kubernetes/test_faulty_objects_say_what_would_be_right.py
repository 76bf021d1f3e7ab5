"""The faults that people make in kinds other than pods, with Kubernetes' own paths and words."""

from __future__ import annotations

import copy
from base64 import b64encode
from typing import Any

import pytest

from pilothouse.meta.kind import Object

PEM = b64encode(b"-----BEGIN CERTIFICATE REQUEST-----\n").decode()

SERVICE: Object = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "db"},
    "spec": {"selector": {"app": "db"}, "ports": [{"port": 80}]},
}
CLAIM: Object = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "c"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}
VOLUME: Object = {
    "apiVersion": "v1",
    "kind": "PersistentVolume",
    "metadata": {"name": "v"},
    "spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/x"}},
}
ROLE: Object = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "Role",
    "metadata": {"name": "r"},
    "rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}],
}
BINDING: Object = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRoleBinding",
    "metadata": {"name": "b"},
    "roleRef": {"kind": "ClusterRole", "name": "admin"},
    "subjects": [{"kind": "User", "name": "u"}],
}
BUDGET: Object = {
    "apiVersion": "policy/v1",
    "kind": "PodDisruptionBudget",
    "metadata": {"name": "p"},
    "spec": {"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}},
}
SLICE: Object = {
    "apiVersion": "discovery.k8s.io/v1",
    "kind": "EndpointSlice",
    "metadata": {"name": "s"},
    "addressType": "IPv4",
    "endpoints": [{"addresses": ["10.0.0.1"]}],
    "ports": [{"port": 80}],
}
REQUEST: Object = {
    "apiVersion": "certificates.k8s.io/v1",
    "kind": "CertificateSigningRequest",
    "metadata": {"name": "c"},
    "spec": {
        "request": PEM,
        "signerName": "kubernetes.io/kube-apiserver-client",
        "usages": ["client auth"],
    },
}
DEFINITION: Object = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "ships.harbour.example.io"},
    "spec": {
        "group": "harbour.example.io",
        "scope": "Namespaced",
        "names": {"plural": "ships", "kind": "Ship"},
        "versions": [
            {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
        ],
    },
}
REVIEW: Object = {
    "apiVersion": "authorization.k8s.io/v1",
    "kind": "SubjectAccessReview",
    "spec": {"user": "u", "resourceAttributes": {"verb": "get", "resource": "pods"}},
}
EVENT: Object = {
    "apiVersion": "v1",
    "kind": "Event",
    "metadata": {"name": "e", "namespace": "t"},
    "involvedObject": {"kind": "Pod", "name": "p", "namespace": "t"},
}
NODE: Object = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "spec": {}}
LEASE: Object = {
    "apiVersion": "coordination.k8s.io/v1",
    "kind": "Lease",
    "metadata": {"name": "l"},
    "spec": {"leaseDurationSeconds": 15},
}
CONFIG: Object = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {}}
SECRET: Object = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {}}
ATTRIBUTES: Object = {
    "apiVersion": "storage.k8s.io/v1beta1",
    "kind": "VolumeAttributesClass",
    "metadata": {"name": "a"},
    "driverName": "pilothouse.io",
    "parameters": {"iops": "100"},
}
ENDPOINTS: Object = {
    "apiVersion": "v1",
    "kind": "Endpoints",
    "metadata": {"name": "e"},
    "subsets": [{"addresses": [{"ip": "10.0.0.1"}], "ports": [{"port": 80}]}],
}
TOKEN: Object = {
    "apiVersion": "authentication.k8s.io/v1",
    "kind": "TokenRequest",
    "spec": {"expirationSeconds": 600, "audiences": ["a"]},
}
GOOD = [
    SERVICE, CLAIM, VOLUME, ROLE, BINDING, BUDGET, SLICE, REQUEST, DEFINITION, REVIEW, EVENT, NODE, LEASE,
    CONFIG, SECRET, ATTRIBUTES, ENDPOINTS, TOKEN,
]  # fmt: skip


@pytest.mark.parametrize("manifest", GOOD, ids=lambda manifest: manifest["kind"])
def test_an_object_in_order_is_taken(kinds: Any, manifest: Object) -> None:
    assert kinds.problems(manifest) == []


FAULTS: list[tuple[Object, str, Any, str]] = [
    (SERVICE, "spec.ports", [], "spec.ports: Required value"),
    (
        SERVICE,
        "spec.ports",
        [{"port": 0}],
        "spec.ports[0].port: Invalid value: 0: must be between 1 and 65535",
    ),
    (SERVICE, "spec.ports", [{"port": 1}, {"port": 2}], "spec.ports[0].name: Required value"),
    (SERVICE, "spec.ports", [{"port": 1, "targetPort": "9"}], 'spec.ports[0].targetPort: Invalid value: "9"'),
    (
        SERVICE,
        "spec.ports",
        [{"port": 1, "nodePort": 30000}],
        "spec.ports[0].nodePort: Forbidden: may not be used when",
    ),
    (
        SERVICE,
        "spec.type",
        "Weird",
        'spec.type: Unsupported value: "Weird": supported values: "ClusterIP", "ExternalName"',
    ),
    (SERVICE, "spec.type", "ExternalName", "spec.externalName: Required value"),
    (
        SERVICE,
        "spec.clusterIP",
        "ten",
        'spec.clusterIPs[0]: Invalid value: "ten": must be a valid IP address',
    ),
    (SERVICE, "spec.selector", {"a b": "c"}, "spec.selector"),
    (SERVICE, "spec.externalIPs", ["x"], 'spec.externalIPs[0]: Invalid value: "x"'),
    (CLAIM, "spec.accessModes", [], "spec.accessModes: Required value: at least 1 access mode is required"),
    (CLAIM, "spec.accessModes", ["Once"], 'spec.accessModes: Unsupported value: "Once"'),
    (CLAIM, "spec.resources", {}, "spec.resources[storage]: Required value"),
    (
        CLAIM,
        "spec.resources.requests.storage",
        "0",
        'spec.resources[storage]: Invalid value: "0": must be greater than zero',
    ),
    (
        CLAIM,
        "spec.resources.requests.storage",
        "big",
        'spec.resources.requests[storage]: Invalid value: "big": quantities',
    ),
    (CLAIM, "spec.volumeMode", "Tape", 'spec.volumeMode: Unsupported value: "Tape"'),
    (VOLUME, "spec.capacity", {}, "spec.capacity: Required value"),
    (
        VOLUME,
        "spec.nfs",
        {"server": "a", "path": "/"},
        "spec.nfs: Forbidden: may not specify more than 1 volume type",
    ),
    (
        VOLUME,
        "spec.persistentVolumeReclaimPolicy",
        "Burn",
        "spec.persistentVolumeReclaimPolicy: Unsupported value",
    ),
    (
        ROLE,
        "rules",
        [{"verbs": [], "apiGroups": [""], "resources": ["x"]}],
        "rules[0].verbs: Required value: verbs must",
    ),
    (
        ROLE,
        "rules",
        [{"verbs": ["get"], "resources": ["x"]}],
        "rules[0].apiGroups: Required value: resource rules must",
    ),
    (
        ROLE,
        "rules",
        [{"verbs": ["get"], "nonResourceURLs": ["/x"]}],
        "rules[0].nonResourceURLs: Invalid value: ",
    ),
    (
        BINDING,
        "roleRef.kind",
        "Role",
        'roleRef.kind: Unsupported value: "Role": supported values: "ClusterRole"',
    ),
    (BINDING, "roleRef.name", "", "roleRef.name: Required value"),
    (BINDING, "subjects", [{"kind": "ServiceAccount", "name": "s"}], "subjects[0].namespace: Required value"),
    (BINDING, "subjects", [{"kind": "Robot", "name": "s"}], 'subjects[0].kind: Unsupported value: "Robot"'),
    (BUDGET, "spec.maxUnavailable", 1, "spec: Invalid value: "),
    (BUDGET, "spec.minAvailable", "half", 'spec.minAvailable: Invalid value: "half": a valid percent string'),
    (
        BUDGET,
        "spec.minAvailable",
        "101%",
        'spec.minAvailable: Invalid value: "101%": must not be greater than 100%',
    ),
    (BUDGET, "spec.minAvailable", -1, "spec.minAvailable: Invalid value: -1"),
    (
        BUDGET,
        "spec.selector",
        {"matchExpressions": [{"key": "a", "operator": "In"}]},
        "spec.selector.matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'",
    ),
    (SLICE, "addressType", None, "addressType: Required value"),
    (
        SLICE,
        "addressType",
        "IPv6",
        'endpoints[0].addresses[0]: Invalid value: "10.0.0.1": must be an IPv6 address',
    ),
    (
        SLICE,
        "endpoints",
        [{"addresses": []}],
        "endpoints[0].addresses: Required value: must contain at least 1 address",
    ),
    (
        REQUEST,
        "spec.request",
        "LS0t",
        'spec.request: Invalid value: "LS0t": PEM block type must be CERTIFICATE REQUEST',
    ),
    (REQUEST, "spec.usages", [], "spec.usages: Required value"),
    (REQUEST, "spec.usages", ["fun"], 'spec.usages[0]: Unsupported value: "fun"'),
    (REQUEST, "spec.signerName", "me", 'spec.signerName: Invalid value: "me"'),
    (
        REQUEST,
        "spec.expirationSeconds",
        5,
        "spec.expirationSeconds: Invalid value: 5: may not specify a duration less",
    ),
    (
        DEFINITION,
        "metadata.name",
        "ships",
        'metadata.name: Invalid value: "ships": must be spec.names.plural',
    ),
    (
        DEFINITION,
        "spec.group",
        "harbour",
        'spec.group: Invalid value: "harbour": should be a domain with at least one dot',
    ),
    (
        DEFINITION,
        "spec.scope",
        "Galaxy",
        'spec.scope: Unsupported value: "Galaxy": supported values: "Cluster", "Namespaced"',
    ),
    (DEFINITION, "spec.scope", None, "spec.scope: Required value"),
    (DEFINITION, "spec.names.plural", "Ships", 'spec.names.plural: Invalid value: "Ships"'),
    (DEFINITION, "spec.versions.0.storage", False, "spec.versions: Invalid value: "),
    (
        DEFINITION,
        "spec.versions.0.schema",
        None,
        "spec.versions[0].schema.openAPIV3Schema: Required value: schemas are",
    ),
    (
        DEFINITION,
        "spec.conversion",
        {"strategy": "Webhook"},
        "spec.conversion.strategy: Forbidden: this server doesn't call conversion webhooks",
    ),
    (
        DEFINITION,
        "spec.versions.0.additionalPrinterColumns",
        [{"name": "A", "type": "blob", "jsonPath": ".a"}],
        'spec.versions[0].additionalPrinterColumns[0].type: Invalid value: "blob": must be one of boolean,date',
    ),
    (
        DEFINITION,
        "spec.versions.0.subresources",
        {"scale": {"specReplicasPath": ".foo", "statusReplicasPath": ".status.n"}},
        'spec.versions[0].subresources.scale.specReplicasPath: Invalid value: ".foo": should be a json path under .spec',
    ),
    (
        DEFINITION,
        "spec.versions.0.selectableFields",
        [{"jsonPath": ".metadata.name"}],
        "spec.versions[0].selectableFields[0].jsonPath: Invalid value",
    ),
    (
        REVIEW,
        "spec.user",
        "",
        'spec.user: Invalid value: "": at least one of user or group must be specified',
    ),
    (REVIEW, "spec.resourceAttributes", None, "spec.resourceAttributes: Invalid value: null: exactly one of"),
    (REVIEW, "spec.nonResourceAttributes", {"path": "/"}, "spec.nonResourceAttributes: Invalid value: "),
    (
        EVENT,
        "involvedObject.namespace",
        "u",
        'involvedObject.namespace: Invalid value: "u": does not match event.namespace',
    ),
    (NODE, "spec.taints", [{"key": "a b", "effect": "NoSchedule"}], "metadata.taints[0].key: Invalid value"),
    (NODE, "spec.taints", [{"key": "a", "effect": "Go"}], 'spec.taints[0].effect: Unsupported value: "Go"'),
    (
        LEASE,
        "spec.leaseDurationSeconds",
        0,
        "spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0",
    ),
    (LEASE, "spec.renewTime", "noon", "spec.renewTime: Invalid value"),
    (CONFIG, "data", {"a/b": "x"}, 'data[a/b]: Invalid value: "a/b": a valid config key must consist of'),
    (CONFIG, "data", {"..": "x"}, "data[..]: Invalid value: \"..\": must not be '..'"),
    (CONFIG, "binaryData", {"a": "%"}, "binaryData"),
    (CONFIG, "data", {"a": "x" * (1 << 20) + "y"}, ": Too long: may not be more than 1048576 bytes"),
    (SECRET, "data", {"a": "not base64!"}, "data"),
    (SECRET, "type", "kubernetes.io/tls", "data[tls.crt]: Required value"),
    (SECRET, "type", "kubernetes.io/basic-auth", "data[username]: Required value"),
    (
        SECRET,
        "type",
        "kubernetes.io/service-account-token",
        "metadata.annotations[kubernetes.io/service-account.name]",
    ),
    (ATTRIBUTES, "parameters", {}, "parameters: Required value: must contain at least one key/value pair"),
    (ATTRIBUTES, "driverName", "", "driverName: Required value"),
    (
        ENDPOINTS,
        "subsets",
        [{"ports": [{"port": 1}]}],
        "subsets[0]: Required value: must specify `addresses`",
    ),
    (ENDPOINTS, "subsets", [{"addresses": [{"ip": "x"}]}], 'subsets[0].addresses[0].ip: Invalid value: "x"'),
    (
        TOKEN,
        "spec.expirationSeconds",
        599,
        "spec.expirationSeconds: Invalid value: 599: may not specify a duration less",
    ),
]


@pytest.mark.parametrize(
    ("manifest", "path", "value", "expected"),
    FAULTS,
    ids=[f"{each[0]['kind']}: {each[3][:60]}" for each in FAULTS],
)
def test_a_fault_is_told_with_its_path(
    kinds: Any, manifest: Object, path: str, value: Any, expected: str
) -> None:
    faulty = copy.deepcopy(manifest)
    at: Any = faulty
    *way, last = [int(part) if part.isdigit() else part for part in path.split(".")]
    for part in way:
        at = at[part]
    if value is None:
        at.pop(last, None)
    else:
        at[last] = value

    problems = kinds.problems(faulty)

    assert any(problem.startswith(expected) for problem in problems), problems


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        ("selector", {"matchLabels": {"app": "other"}}, "spec.template.metadata.labels: Invalid value: "),
        ("selector", {}, "spec.selector: Invalid value: {}: empty selector is invalid for statefulset"),
        ("replicas", -1, "spec.replicas: Invalid value: -1: must be greater than or equal to 0"),
        ("serviceName", "A", 'spec.serviceName: Invalid value: "A"'),
        ("podManagementPolicy", "Random", 'spec.podManagementPolicy: Unsupported value: "Random"'),
        (
            "updateStrategy",
            {"type": "OnDelete", "rollingUpdate": {"partition": 1}},
            "spec.updateStrategy.rollingUpdate: Invalid value: ",
        ),
        (
            "updateStrategy",
            {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0}},
            "spec.updateStrategy.rollingUpdate.maxUnavailable: Invalid value: 0: cannot be 0",
        ),
        (
            "volumeClaimTemplates",
            [],
            'spec.template.spec.containers[0].volumeMounts[0].name: Not found: "data"',
        ),
        (
            "volumeClaimTemplates",
            [{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}],
            "spec.volumeClaimTemplates[0].spec.resources[storage]: Required value",
        ),
    ],
)
def test_a_faulty_stateful_set_says_where(
    kinds: Any, stateful_set: Object, path: str, value: Any, expected: str
) -> None:
    stateful_set["spec"][path] = value

    problems = kinds.problems(stateful_set)

    assert any(problem.startswith(expected) for problem in problems), problems


def test_a_set_restarts_its_pods_always(kinds: Any, stateful_set: Object) -> None:
    stateful_set["spec"]["template"]["spec"]["restartPolicy"] = "Never"

    assert kinds.problems(stateful_set) == [
        'spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always"'
    ]


@pytest.mark.parametrize(
    ("kind", "name", "good"),
    [
        ("Namespace", "a.b", False),
        ("Namespace", "a-b", True),
        ("Service", "1a", False),
        ("Service", "a1", True),
        ("StatefulSet", "a.b", False),
        ("Role", "system:reader", True),
        ("Role", "a/b", False),
        ("CertificateSigningRequest", "node:a_B", True),
    ],
)
def test_some_kinds_have_names_of_their_own(kinds: Any, kind: str, name: str, good: bool) -> None:
    rule = kinds.kind(kind).validate_name

    assert (rule(name) == "") is good
