"""The roles of kube-controller-manager's controllers, for the kinds served here.

With them a real kube-controller-manager can run against this server. Our controllers don't need them.
"""

from __future__ import annotations

from pilothouse.apiserver.authorization.rbac.role_builders import CREATE_EVENTS, VIEW, cluster_role, verbs
from pilothouse.apiserver.authorization.rbac.rules import PolicyRule

_CERTIFICATES = "certificates.k8s.io"
_STORAGE = "storage.k8s.io"
_SIGNERS = (
    "kubernetes.io/kube-apiserver-client kubernetes.io/kube-apiserver-client-kubelet "
    "kubernetes.io/kubelet-serving kubernetes.io/legacy-unknown"
)

_RULES: dict[str, tuple[PolicyRule, ...]] = {
    "certificate-controller": (
        verbs("delete " + VIEW, "certificatesigningrequests", _CERTIFICATES),
        verbs(
            "update", "certificatesigningrequests/approval certificatesigningrequests/status", _CERTIFICATES
        ),
        verbs("approve", "signers", _CERTIFICATES, names="kubernetes.io/kube-apiserver-client-kubelet"),
        verbs("sign", "signers", _CERTIFICATES, names=_SIGNERS),
        verbs("create", "subjectaccessreviews", "authorization.k8s.io"),
        CREATE_EVENTS,
    ),
    "clusterrole-aggregation-controller": (
        verbs("escalate patch update " + VIEW, "clusterroles", "rbac.authorization.k8s.io"),
    ),
    "disruption-controller": (
        verbs(VIEW, "poddisruptionbudgets", "policy"),
        verbs(VIEW, "deployments replicasets statefulsets", "apps"),
        verbs("update", "poddisruptionbudgets/status", "policy"),
        verbs("patch update", "pods/status"),
        verbs("get", "*/scale", "*"),
        CREATE_EVENTS,
    ),
    "endpoint-controller": (
        verbs(VIEW, "pods services"),
        verbs("create delete update " + VIEW, "endpoints"),
        verbs("create", "endpoints/restricted"),
        CREATE_EVENTS,
    ),
    "endpointslice-controller": (
        verbs(VIEW, "nodes pods services"),
        verbs("update", "services/finalizers"),
        verbs("create delete update " + VIEW, "endpointslices", "discovery.k8s.io"),
        CREATE_EVENTS,
    ),
    "expand-controller": (
        verbs("patch update " + VIEW, "persistentvolumes"),
        verbs("patch update", "persistentvolumeclaims/status"),
        verbs(VIEW, "persistentvolumeclaims"),
        verbs("get", "services"),
        CREATE_EVENTS,
    ),
    "generic-garbage-collector": (verbs("delete patch update " + VIEW, "*", "*"), CREATE_EVENTS),
    "namespace-controller": (
        verbs("delete " + VIEW, "namespaces"),
        verbs("update", "namespaces/finalize namespaces/status"),
        verbs("delete deletecollection " + VIEW, "*", "*"),
    ),
    "persistent-volume-binder": (
        verbs("create delete update " + VIEW, "persistentvolumes"),
        verbs("update", "persistentvolumeclaims/status persistentvolumes/status"),
        verbs("update " + VIEW, "persistentvolumeclaims"),
        verbs("create delete " + VIEW, "pods"),
        verbs(VIEW, "storageclasses", _STORAGE),
        verbs("list watch", "nodes"),
        verbs("watch", "events"),
        verbs("get", "services"),
        CREATE_EVENTS,
    ),
    "pod-garbage-collector": (
        verbs("delete list watch", "pods"),
        verbs(VIEW, "nodes"),
        verbs("patch", "pods/status"),
    ),
    "pv-protection-controller": (verbs("update " + VIEW, "persistentvolumes"), CREATE_EVENTS),
    "pvc-protection-controller": (
        verbs("update " + VIEW, "persistentvolumeclaims"),
        verbs(VIEW, "pods"),
        CREATE_EVENTS,
    ),
    "root-ca-cert-publisher": (verbs("create update", "configmaps"), CREATE_EVENTS),
    "service-account-controller": (verbs("create", "serviceaccounts"), CREATE_EVENTS),
    "statefulset-controller": (
        verbs("create delete patch update " + VIEW, "pods"),
        verbs(VIEW, "statefulsets", "apps"),
        verbs("update", "statefulsets/finalizers statefulsets/status", "apps"),
        verbs("update", "pods/finalizers"),
        verbs("create delete patch update " + VIEW, "controllerrevisions", "apps"),
        verbs("create delete update " + VIEW, "persistentvolumeclaims"),
        CREATE_EVENTS,
    ),
}

CONTROLLER_ROLES = tuple(cluster_role(f"system:controller:{name}", *rules) for name, rules in _RULES.items())
