"""Manifests in order, and the faults that people make in them. A real kube-apiserver is asked about the same ones."""

from __future__ import annotations

import copy
from base64 import b64encode
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from pilothouse.meta.kind import Object


def _request() -> str:
    """A request for a certificate, as it is put into an object."""
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "mate")])
    key = ec.generate_private_key(ec.SECP256R1())
    made = x509.CertificateSigningRequestBuilder().subject_name(name).sign(key, hashes.SHA256())
    return b64encode(made.public_bytes(serialization.Encoding.PEM)).decode()


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
        "request": _request(),
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
    (CONFIG, "binaryData", {"a": "%"}, "binaryData.a: Invalid value"),
    (CONFIG, "data", {"a": "x" * (1 << 20) + "y"}, ": Too long: may not be more than 1048576 bytes"),
    (SECRET, "data", {"a": "not base64!"}, "data.a: Invalid value"),
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

CONTAINER_FAULTS: list[tuple[dict[str, Any], str]] = [
    ({"name": ""}, "spec.containers[0].name: Required value"),
    ({"name": "A_b"}, 'spec.containers[0].name: Invalid value: "A_b": a lowercase RFC 1123 label'),
    ({"image": ""}, "spec.containers[0].image: Required value"),
    ({"imagePullPolicy": "Sometimes"}, 'spec.containers[0].imagePullPolicy: Unsupported value: "Sometimes"'),
    ({"ports": [{"containerPort": 0}]}, "spec.containers[0].ports[0].containerPort: Required value"),
    (
        {"ports": [{"containerPort": 70000}]},
        "spec.containers[0].ports[0].containerPort: Invalid value: 70000: must be between 1 and 65535, inclusive",
    ),
    (
        {"ports": [{"containerPort": 1, "name": "a"}, {"containerPort": 2, "name": "a"}]},
        'spec.containers[0].ports[1].name: Duplicate value: "a"',
    ),
    (
        {"ports": [{"containerPort": 1, "name": "1234"}]},
        'spec.containers[0].ports[0].name: Invalid value: "1234": must contain at least one letter (a-z)',
    ),
    (
        {"ports": [{"containerPort": 1, "protocol": "ICMP"}]},
        'spec.containers[0].ports[0].protocol: Unsupported value: "ICMP": supported values: "SCTP", "TCP", "UDP"',
    ),
    (
        {"volumeMounts": [{"name": "nope", "mountPath": "/x"}]},
        'spec.containers[0].volumeMounts[0].name: Not found: "nope"',
    ),
    ({"volumeMounts": [{"name": "v"}]}, "spec.containers[0].volumeMounts[0].mountPath: Required value"),
    (
        {"volumeMounts": [{"name": "v", "mountPath": "/x", "subPath": "../y"}]},
        "spec.containers[0].volumeMounts[0].subPath: Invalid value: \"../y\": must not contain '..'",
    ),
    ({"env": [{"name": ""}]}, "spec.containers[0].env[0].name: Required value"),
    (
        {"env": [{"name": "A", "value": "x", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]},
        'spec.containers[0].env[0].valueFrom: Invalid value: "": may not be specified when `value` is not empty',
    ),
    (
        {"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "spec.tea"}}}]},
        'spec.containers[0].env[0].valueFrom.fieldRef.fieldPath: Unsupported value: "spec.tea"',
    ),
    (
        {"env": [{"name": "A", "valueFrom": {}}]},
        'spec.containers[0].env[0].valueFrom: Invalid value: "": must specify one of',
    ),
    (
        {"resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "2"}}},
        'spec.containers[0].resources.requests: Invalid value: "2": must be less than or equal to cpu limit of 1',
    ),
    (
        {"resources": {"limits": {"memory": "lots"}}},
        'spec.containers[0].resources.limits[memory]: Invalid value: "lots": quantities must match',
    ),
    (
        {"resources": {"limits": {"cpu": "-1"}}},
        'spec.containers[0].resources.limits[cpu]: Invalid value: "-1": must be greater than or equal to 0',
    ),
    ({"livenessProbe": {}}, "spec.containers[0].livenessProbe: Required value: must specify a handler type"),
    (
        {"livenessProbe": {"exec": {"command": ["x"]}, "successThreshold": 2}},
        "spec.containers[0].livenessProbe.successThreshold: Invalid value: 2: must be 1",
    ),
    (
        {"readinessProbe": {"tcpSocket": {"port": 0}}},
        "spec.containers[0].readinessProbe.tcpSocket.port: Invalid value: 0: must be between 1 and 65535",
    ),
    (
        {"readinessProbe": {"exec": {"command": ["x"]}, "periodSeconds": -1}},
        "spec.containers[0].readinessProbe.periodSeconds: Invalid value: -1: must be greater than or equal to 0",
    ),
    (
        {"readinessProbe": {"exec": {"command": ["x"]}, "tcpSocket": {"port": 1}}},
        "spec.containers[0].readinessProbe.tcpSocket: Forbidden: may not specify more than 1 handler type",
    ),
    (
        {"lifecycle": {"preStop": {"exec": {}}}},
        "spec.containers[0].lifecycle.preStop.exec.command: Required value",
    ),
    (
        {"securityContext": {"runAsUser": -1}},
        "spec.containers[0].securityContext.runAsUser: Invalid value: -1: must be between 0 and 2147483647",
    ),
    ({"restartPolicy": "Always"}, "spec.containers[0].restartPolicy: Forbidden: may not be set for non-init"),
]

SPEC_FAULTS: list[tuple[dict[str, Any], str]] = [
    ({"containers": []}, "spec.containers: Required value"),
    (
        {"restartPolicy": "Maybe"},
        'spec.restartPolicy: Unsupported value: "Maybe": supported values: "Always", "Never"',
    ),
    (
        {"activeDeadlineSeconds": 0},
        "spec.activeDeadlineSeconds: Invalid value: 0: must be between 1 and 2147483647",
    ),
    ({"hostname": "A.b"}, 'spec.hostname: Invalid value: "A.b": a lowercase RFC 1123 label'),
    ({"nodeSelector": {"a b": "c"}}, "spec.nodeSelector"),
    ({"volumes": [{"name": "a"}, {"name": "a"}]}, 'spec.volumes[1].name: Duplicate value: "a"'),
    (
        {"volumes": [{"name": "a", "emptyDir": {}, "hostPath": {"path": "/x"}}]},
        "spec.volumes[0].hostPath: Forbidden: may not specify more than 1 volume type",
    ),
    ({"volumes": [{"name": "a", "secret": {}}]}, "spec.volumes[0].secret.secretName: Required value"),
    ({"volumes": [{"name": "a", "hostPath": {"path": ""}}]}, "spec.volumes[0].hostPath.path: Required value"),
    (
        {"volumes": [{"name": "a", "configMap": {"name": "c", "defaultMode": 4096}}]},
        "spec.volumes[0].configMap.defaultMode: Invalid value: 4096: must be a number between 0 and 0777",
    ),
    (
        {
            "volumes": [
                {
                    "name": "a",
                    "projected": {
                        "sources": [{"serviceAccountToken": {"path": "t", "expirationSeconds": 5}}]
                    },
                }
            ]
        },
        "spec.volumes[0].projected.sources[0].serviceAccountToken.expirationSeconds: Invalid value: 5",
    ),
    (
        {"tolerations": [{"operator": "Equal"}]},
        'spec.tolerations[0].operator: Invalid value: "Equal": operator must be Exists when `key` is empty',
    ),
    (
        {"tolerations": [{"key": "a", "operator": "Exists", "effect": "NoSchedule", "tolerationSeconds": 5}]},
        "spec.tolerations[0].effect: Invalid value: \"NoSchedule\": effect must be 'NoExecute'",
    ),
    (
        {
            "affinity": {
                "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"labelSelector": {}}]}
            }
        },
        "spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey: Required value",
    ),
    (
        {"securityContext": {"sysctls": [{"name": "net.a", "value": "1"}, {"name": "bar..", "value": "1"}]}},
        'spec.securityContext.sysctls[1].name: Invalid value: "bar..": must be',
    ),
    (
        {"securityContext": {"sysctls": [{"name": "net.a", "value": "1"}, {"name": "net.a", "value": "1"}]}},
        'spec.securityContext.sysctls[1].name: Duplicate value: "net.a"',
    ),
    (
        {"securityContext": {"sysctls": [{"name": "", "value": "1"}]}},
        "spec.securityContext.sysctls[0].name: Required value",
    ),
    (
        {"hostAliases": [{"ip": "nine"}]},
        'spec.hostAliases[0].ip: Invalid value: "nine": must be a valid IP address',
    ),
    ({"dnsPolicy": "None"}, "spec.dnsConfig: Required value: must provide `dnsConfig`"),
    ({"dnsPolicy": "None", "dnsConfig": {}}, "spec.dnsConfig.nameservers: Required value"),
    (
        {"initContainers": [{"name": "db", "image": "x"}]},
        'spec.initContainers[0].name: Duplicate value: "db"',
    ),
    (
        {"initContainers": [{"name": "i", "image": "x", "livenessProbe": {"exec": {"command": ["x"]}}}]},
        "spec.initContainers[0].livenessProbe: Forbidden: may not be set for init containers without restartPolicy=Always",
    ),
    (
        {
            "topologySpreadConstraints": [
                {"maxSkew": 0, "topologyKey": "k", "whenUnsatisfiable": "DoNotSchedule"}
            ]
        },
        "spec.topologySpreadConstraints[0].maxSkew: Invalid value: 0: must be greater than zero",
    ),
]


def with_change(manifest: Object, path: str, value: Any) -> Object:
    """A copy of a manifest with one field set to another value; None removes it."""
    changed = copy.deepcopy(manifest)
    at: Any = changed
    *way, last = [int(part) if part.isdigit() else part for part in path.split(".")]
    for part in way:
        at = at[part]
    if value is None:
        at.pop(last, None)
    else:
        at[last] = value
    return changed
