"""The default roles and bindings: Kubernetes' own, with its names and rules for what is served here, and
ours.

``admin``, ``edit`` and ``view`` are aggregated; roles of ours add our kinds. ``pilothouse:approver`` is for
people who decide what rules may do, ``pilothouse:rules`` for the executors of their actions,
``pilothouse:controller-manager`` for our controllers, ``pilothouse:audit-reader`` for readers of the audit
trail, other instances included. ``pilothouse:pilot`` is for pilots on a real Kubernetes; here ``restriction``
decides about pilots and nodes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pilothouse.api.applications.registry import BUILT_IN
from pilothouse.apiserver.authorization.rbac.controller_policy import CONTROLLER_ROLES
from pilothouse.apiserver.authorization.rbac.role_builders import (
    CREATE_EVENTS,
    EDIT,
    VIEW,
    binding,
    group,
    namespaced,
    paths,
    role,
    service_account,
    user,
    verbs,
)
from pilothouse.apiserver.authorization.rbac.role_builders import cluster_role as plain
from pilothouse.meta.kind import Object
from pilothouse.pki.keyring import PEERS_GROUP

ADMIN_LABEL, EDIT_LABEL, VIEW_LABEL = (
    f"rbac.authorization.k8s.io/aggregate-to-{name}" for name in ("admin", "edit", "view")
)
_AUTHENTICATED = group("system:authenticated")
_HEALTH = "/healthz /livez /readyz"
_VERSION = "/version /version/"

_NAVIGATOR = "navigator.jetstack.io"
_CLUSTERS = " ".join(each.cluster.plural for each in BUILT_IN if each.cluster is not None)
_K0S = "autopilot.k0sproject.io"
_OPENSTORAGE = "autopilot.libopenstorage.org"
_OWN = "pilothouse.io"


def cluster_roles() -> list[Object]:
    return [*_people(), *_visitors(), *_components(), *_ours(), *CONTROLLER_ROLES]


def cluster_bindings() -> list[Object]:
    controllers = (each["metadata"]["name"] for each in CONTROLLER_ROLES)
    return [
        binding("cluster-admin", group("system:masters")),
        binding("system:basic-user", _AUTHENTICATED),
        binding("system:discovery", _AUTHENTICATED),
        binding("system:kube-controller-manager", user("system:kube-controller-manager")),
        binding("system:kube-scheduler", user("system:kube-scheduler")),
        binding("system:monitoring", group("system:monitoring")),
        # Without subjects, as Kubernetes has it: what nodes may do is for an authorizer of their own to say.
        binding("system:node"),
        binding("system:public-info-viewer", _AUTHENTICATED, group("system:unauthenticated")),
        binding("pilothouse:public-info-viewer", _AUTHENTICATED, group("system:unauthenticated")),
        binding("system:service-account-issuer-discovery", group("system:serviceaccounts")),
        binding("system:volume-scheduler", user("system:kube-scheduler")),
        binding("pilothouse:audit-reader", group(PEERS_GROUP)),
        binding("pilothouse:kubelet-api-admin", group(PEERS_GROUP), role="system:kubelet-api-admin"),
        binding("pilothouse:controller-manager", user("pilothouse:controller-manager")),
        binding("pilothouse:rules", service_account("kube-system", "pilothouse-rules")),
        binding("pilothouse:monitoring", group("system:monitoring")),
        binding("pilothouse:node-bootstrapper", group("system:bootstrappers")),
        *(
            binding(name, service_account("kube-system", name.removeprefix("system:controller:")))
            for name in controllers
        ),
    ]


def roles() -> list[Object]:
    """The Roles of ``kube-system``, with which Kubernetes' own components elect their leaders."""
    return [_leader_locking(name) for name in ("kube-controller-manager", "kube-scheduler")]


def bindings() -> list[Object]:
    return [
        namespaced(
            binding(
                f"system::leader-locking-{name}",
                user(f"system:{name}"),
                service_account("kube-system", name),
                kind="Role",
            ),
            "kube-system",
        )
        for name in ("kube-controller-manager", "kube-scheduler")
    ]


def _people() -> Iterable[Object]:
    """Roles for people: everything, or a share of a namespace."""
    yield plain("cluster-admin", verbs("*", "*", "*"), paths("*", "*"))
    yield _aggregate("admin", ADMIN_LABEL)
    yield _aggregate("edit", EDIT_LABEL, ADMIN_LABEL)
    yield _aggregate("view", VIEW_LABEL, EDIT_LABEL)
    yield plain(
        "system:aggregate-to-admin",
        verbs("create", "localsubjectaccessreviews", "authorization.k8s.io"),
        verbs(EDIT + VIEW, "roles rolebindings", "rbac.authorization.k8s.io"),
        labels=[ADMIN_LABEL],
    )
    yield plain(
        "system:aggregate-to-edit",
        verbs(VIEW, "secrets"),
        verbs("impersonate", "serviceaccounts"),
        verbs(VIEW, "pods/attach pods/exec"),
        verbs(EDIT, "pods pods/attach pods/exec"),
        verbs("create", "pods/eviction"),
        verbs(EDIT, "configmaps events persistentvolumeclaims secrets serviceaccounts services"),
        verbs("create", "serviceaccounts/token"),
        verbs(
            EDIT,
            "daemonsets deployments deployments/scale replicasets replicasets/scale statefulsets "
            "statefulsets/scale",
            "apps",
        ),
        verbs(EDIT, "cronjobs jobs", "batch"),
        verbs(EDIT, "poddisruptionbudgets", "policy"),
        verbs(EDIT + VIEW, "leases", "coordination.k8s.io"),
        labels=[EDIT_LABEL],
    )
    yield plain(
        "system:aggregate-to-view",
        verbs(
            VIEW,
            "configmaps endpoints persistentvolumeclaims persistentvolumeclaims/status pods serviceaccounts "
            "services services/status",
        ),
        verbs(VIEW, "bindings events namespaces/status pods/log pods/status"),
        verbs(VIEW, "namespaces"),
        verbs(VIEW, "endpointslices", "discovery.k8s.io"),
        verbs(
            VIEW,
            "controllerrevisions daemonsets daemonsets/status deployments deployments/scale "
            "deployments/status "
            "replicasets replicasets/scale replicasets/status statefulsets statefulsets/scale "
            "statefulsets/status",
            "apps",
        ),
        verbs(VIEW, "cronjobs cronjobs/status jobs jobs/status", "batch"),
        verbs(VIEW, "poddisruptionbudgets poddisruptionbudgets/status", "policy"),
        labels=[VIEW_LABEL],
    )


def _visitors() -> Iterable[Object]:
    """What authenticated or anonymous users may see."""
    yield plain(
        "system:basic-user",
        verbs("create", "selfsubjectaccessreviews selfsubjectrulesreviews", "authorization.k8s.io"),
        verbs("create", "selfsubjectreviews", "authentication.k8s.io"),
    )
    discovery = f"/api /api/* /apis /apis/* /openapi /openapi/* {_HEALTH} {_VERSION}"
    yield plain("system:discovery", paths("get", discovery))
    yield plain("system:public-info-viewer", paths("get", f"{_HEALTH} {_VERSION}"))
    yield plain(
        "system:monitoring", paths("get", f"{_HEALTH} /healthz/* /livez/* /readyz/* /metrics /metrics/slis")
    )
    # What a machine that joins checks against the hash that its token carries.
    yield plain("pilothouse:public-info-viewer", paths("get", "/pilothouse/v1/authorities"))
    yield plain("pilothouse:audit-reader", paths("get", "/pilothouse/v1/audit"))
    yield plain(
        "system:service-account-issuer-discovery",
        paths(
            "get",
            "/.well-known/openid-configuration /.well-known/openid-configuration/ "
            "/openid/v1/jwks /openid/v1/jwks/",
        ),
    )


def _components() -> Iterable[Object]:
    """Roles of Kubernetes' own components."""
    reviews = (
        verbs("create", "tokenreviews", "authentication.k8s.io"),
        verbs("create", "subjectaccessreviews", "authorization.k8s.io"),
    )
    yield plain("system:auth-delegator", *reviews)
    yield plain(
        "system:kubelet-api-admin",
        verbs(VIEW, "nodes"),
        verbs("*", "nodes/configz nodes/healthz nodes/log nodes/metrics nodes/pods nodes/proxy nodes/stats"),
        verbs("proxy", "nodes"),
    )
    yield plain(
        "system:kube-controller-manager",
        CREATE_EVENTS,
        verbs("create", "leases", "coordination.k8s.io"),
        verbs("get update", "leases", "coordination.k8s.io", names="kube-controller-manager"),
        verbs("create", "secrets serviceaccounts"),
        verbs("delete", "secrets"),
        verbs("get", "configmaps namespaces secrets serviceaccounts"),
        verbs("update", "secrets serviceaccounts"),
        *reviews,
        verbs("list watch", "*", "*"),
        verbs("create", "serviceaccounts/token"),
    )
    yield plain(
        "system:kube-scheduler",
        CREATE_EVENTS,
        verbs("create", "leases", "coordination.k8s.io"),
        verbs("get list update watch", "leases", "coordination.k8s.io", names="kube-scheduler"),
        verbs(VIEW, "namespaces nodes persistentvolumeclaims persistentvolumes services"),
        verbs("delete " + VIEW, "pods"),
        verbs("create", "bindings pods/binding"),
        verbs("patch update", "pods/status"),
        verbs(VIEW, "replicasets statefulsets", "apps"),
        verbs(VIEW, "poddisruptionbudgets", "policy"),
        *reviews,
    )
    yield plain(
        "system:volume-scheduler",
        verbs(VIEW + "patch update", "persistentvolumeclaims persistentvolumes"),
        verbs(VIEW, "storageclasses", "storage.k8s.io"),
    )
    yield plain(
        "system:persistent-volume-provisioner",
        verbs("create delete " + VIEW, "persistentvolumes"),
        verbs("update " + VIEW, "persistentvolumeclaims"),
        verbs(VIEW, "storageclasses", "storage.k8s.io"),
        verbs("watch", "events"),
        CREATE_EVENTS,
    )
    yield plain(
        "system:node",
        verbs("create", "tokenreviews", "authentication.k8s.io"),
        verbs("create", "localsubjectaccessreviews subjectaccessreviews", "authorization.k8s.io"),
        verbs(VIEW, "configmaps secrets services"),
        verbs("create patch update " + VIEW, "nodes"),
        verbs("patch update", "nodes/status pods/status"),
        verbs("create patch update", "events"),
        verbs("create delete " + VIEW, "pods"),
        verbs("create", "pods/eviction serviceaccounts/token"),
        verbs("get", "endpoints persistentvolumeclaims persistentvolumes"),
        verbs("get patch update", "persistentvolumeclaims/status"),
        verbs("create " + VIEW, "certificatesigningrequests", "certificates.k8s.io"),
        verbs("create delete get patch update", "leases", "coordination.k8s.io"),
    )
    yield plain(
        "system:node-bootstrapper",
        verbs("create " + VIEW, "certificatesigningrequests", "certificates.k8s.io"),
    )
    requests = "system:certificates.k8s.io:certificatesigningrequests"
    for which in ("nodeclient", "selfnodeclient"):
        yield plain(
            f"{requests}:{which}",
            verbs("create", f"certificatesigningrequests/{which}", "certificates.k8s.io"),
        )
    for signer in (
        "kube-apiserver-client",
        "kube-apiserver-client-kubelet",
        "kubelet-serving",
        "legacy-unknown",
    ):
        yield plain(
            f"system:certificates.k8s.io:{signer}-approver",
            verbs("approve", "signers", "certificates.k8s.io", names=f"kubernetes.io/{signer}"),
        )


def _ours() -> Iterable[Object]:
    """Our own kinds, for people and for our own components."""
    shown = (
        (_NAVIGATOR, f"{_CLUSTERS} pilots"),
        (_OPENSTORAGE, "autopilotruleobjects actionapprovals applicationactions"),
        # Cluster-wide: for users who may view all namespaces.
        (_OPENSTORAGE, "autopilotrules applicationpolicies"),
        (_K0S, "plans controlnodes updateconfigs"),
        (_OWN, "storagepools"),
    )
    yield plain(
        "pilothouse:aggregate-to-view",
        *(verbs(VIEW, f"{kinds} {_with(kinds, 'status')}", api) for api, kinds in shown),
        verbs(VIEW, "decisions", _OWN),
        # A question is about what this role shows, and exists for a minute.
        verbs("create delete " + VIEW, "questions", _OWN),
        verbs(VIEW, "questions/status", _OWN),
        labels=[VIEW_LABEL],
    )
    yield plain(
        "pilothouse:aggregate-to-edit",
        verbs(EDIT, f"{_CLUSTERS} pilots", _NAVIGATOR),
        # Not to decide them, which needs the verb approve on the rule; nor to make them in its stead.
        verbs("delete deletecollection patch update", "actionapprovals", _OPENSTORAGE),
        labels=[EDIT_LABEL],
    )
    yield plain(
        "pilothouse:operator",
        verbs(EDIT + VIEW, "plans updateconfigs", _K0S),
        verbs(VIEW, "controlnodes", _K0S),
        verbs(EDIT + VIEW, "autopilotrules applicationpolicies", _OPENSTORAGE),
        # To ask for a larger tier; nodes write the rest.
        verbs("patch update " + VIEW, "storagepools", _OWN),
    )
    # In a namespace, for the approvals there; bound to the cluster, for all.
    yield plain(
        "pilothouse:approver",
        verbs("approve " + VIEW, "autopilotrules", _OPENSTORAGE),
        verbs("patch update " + VIEW, "actionapprovals", _OPENSTORAGE),
        verbs(VIEW, "autopilotruleobjects applicationactions", _OPENSTORAGE),
    )
    # A bootstrap token may request a node's certificate, and nothing else.
    yield plain(
        "pilothouse:node-bootstrapper",
        verbs("create get", "certificatesigningrequests", "certificates.k8s.io"),
    )
    # What Kubernetes needs kube-state-metrics for.
    yield plain(
        "pilothouse:monitoring",
        paths(
            "get",
            "/metrics /metrics/objects "
            "/pilothouse/v1/node-targets /pilothouse/v1/pilot-targets /pilothouse/v1/server-targets",
        ),
        verbs("get", "nodes/metrics"),
    )
    yield plain(
        "pilothouse:controller-manager",
        CREATE_EVENTS,
        # Garbage collection looks at, marks and removes objects of any kind.
        verbs("delete patch update " + VIEW, "*", "*"),
        verbs(
            "create",
            "configmaps endpoints persistentvolumeclaims persistentvolumes pods pods/binding pods/eviction "
            "secrets serviceaccounts serviceaccounts/token services",
        ),
        verbs("create", "controllerrevisions statefulsets", "apps"),
        verbs("create", "poddisruptionbudgets", "policy"),
        verbs("create", "endpointslices", "discovery.k8s.io"),
        verbs("create", "leases", "coordination.k8s.io"),
        # What a pilot has on a real Kubernetes; none can be given that is not held here.
        verbs("create", "roles rolebindings", "rbac.authorization.k8s.io"),
        verbs("bind", "clusterroles", "rbac.authorization.k8s.io", names="pilothouse:pilot"),
        verbs("create", "pilots", _NAVIGATOR),
        verbs("create", "controlnodes plans", _K0S),
        verbs("signal", "plans", _K0S, names="autopilot"),
        verbs(
            "create", "autopilotruleobjects actionapprovals applicationactions autopilotrules", _OPENSTORAGE
        ),
        verbs("create", "decisions", _OWN),
        # What executors of actions act as: it may do no more than they have to.
        verbs("impersonate", "serviceaccounts", names="pilothouse-rules"),
        # Node certificates only, which the server signs: compromised controllers get no others.
        verbs(
            "approve",
            "signers",
            "certificates.k8s.io",
            names="kubernetes.io/kube-apiserver-client-kubelet kubernetes.io/kubelet-serving",
        ),
        verbs("deletecollection", "*", "*"),
    )
    # The user that executors of ApplicationActions act as.
    yield plain(
        "pilothouse:rules",
        verbs("get patch", "persistentvolumeclaims"),
        verbs("get", "pods"),
        verbs("create", "pods/eviction"),
        verbs("get create delete", "volumeattributesclasses", "storage.k8s.io"),
        verbs("get patch", "storagepools", _OWN),
        verbs("get patch", "deployments statefulsets", "apps"),
        verbs("get patch", f"{_CLUSTERS} pilots", _NAVIGATOR),
        verbs("get patch update delete", "applicationactions", _OPENSTORAGE),
        verbs("get patch update", "applicationactions/status", _OPENSTORAGE),
    )
    yield plain(
        "pilothouse:pilot",
        verbs(VIEW, f"{_CLUSTERS} pilots", _NAVIGATOR),
        verbs("get patch update", "pilots/status", _NAVIGATOR),
        verbs(VIEW, "configmaps pods secrets"),
        verbs("create patch update " + VIEW, "leases", "coordination.k8s.io"),
        CREATE_EVENTS,
    )


def _aggregate(name: str, selected: str, *labels: str) -> Object:
    selector: dict[str, Any] = {"matchLabels": {selected: "true"}}
    return {**plain(name, labels=labels), "aggregationRule": {"clusterRoleSelectors": [selector]}}


def _leader_locking(component: str) -> Object:
    return namespaced(
        role(
            f"system::leader-locking-{component}",
            verbs("watch", "configmaps"),
            verbs("get update", "configmaps", names=component),
            verbs("create get list update watch", "leases", "coordination.k8s.io"),
        ),
        "kube-system",
    )


def _with(kinds: str, subresource: str) -> str:
    return " ".join(f"{kind}/{subresource}" for kind in kinds.split())
