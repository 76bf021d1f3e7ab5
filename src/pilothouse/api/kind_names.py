"""Kinds by name, for clients of an API server.

    Pod.path("default", "web-0")                # "/api/v1/namespaces/default/pods/web-0"
    StatefulSet.path("default", "web", "status")

A ``KindName`` is how paths and objects spell a kind; ``meta.kind.Kind`` has what the server knows of it.
"""

from __future__ import annotations

import re
from functools import partial
from typing import Final
from urllib.parse import quote

import msgspec

from pilothouse.meta import errors

_PLAIN: Final = re.compile(r"[A-Za-z0-9._~-]+")


class KindName(msgspec.Struct, frozen=True, cache_hash=True):
    """One version of a kind, as a client names it."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """As objects spell it."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def resource(self) -> str:
        """As roles and messages spell it: ``statefulsets.apps``, ``pods``."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """The path of all objects, a namespace's, or one. Raises ``StatusError`` for an impossible name."""
        if "/" in name or "/" in namespace:
            # A server takes what is quoted for a separator, too: this would be the path of something else.
            raise errors.not_found(self.plural, self.group, name)
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        path = f"{root}/namespaces{_step(namespace)}" if self.namespaced and namespace else root
        return f"{path}/{self.plural}{_step(name)}{_step(subresource)}"


def _step(part: str) -> str:
    """A step of a path. Most names need no quoting, and checking is cheaper than quoting."""
    if not part:
        return ""
    return f"/{part}" if _PLAIN.fullmatch(part) else f"/{quote(part, safe='')}"


_storage: Final = partial(KindName, "storage.k8s.io", "v1")
_rbac: Final = partial(KindName, "rbac.authorization.k8s.io", "v1")
_navigator: Final = partial(KindName, "navigator.jetstack.io", "v1beta1")
_k0s: Final = partial(KindName, "autopilot.k0sproject.io", "v1beta2")
_openstorage: Final = partial(KindName, "autopilot.libopenstorage.org", "v1alpha1")

Namespace: Final = KindName("", "v1", "Namespace", "namespaces", namespaced=False)
Node: Final = KindName("", "v1", "Node", "nodes", namespaced=False)
Pod: Final = KindName("", "v1", "Pod", "pods")
Service: Final = KindName("", "v1", "Service", "services")
Endpoints: Final = KindName("", "v1", "Endpoints", "endpoints")
ConfigMap: Final = KindName("", "v1", "ConfigMap", "configmaps")
Secret: Final = KindName("", "v1", "Secret", "secrets")
ServiceAccount: Final = KindName("", "v1", "ServiceAccount", "serviceaccounts")
PersistentVolume: Final = KindName("", "v1", "PersistentVolume", "persistentvolumes", namespaced=False)
PersistentVolumeClaim: Final = KindName("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims")
CoreEvent: Final = KindName("", "v1", "Event", "events")
Event: Final = KindName("events.k8s.io", "v1", "Event", "events")
StatefulSet: Final = KindName("apps", "v1", "StatefulSet", "statefulsets")
Deployment: Final = KindName("apps", "v1", "Deployment", "deployments")
ReplicaSet: Final = KindName("apps", "v1", "ReplicaSet", "replicasets")
DaemonSet: Final = KindName("apps", "v1", "DaemonSet", "daemonsets")
Job: Final = KindName("batch", "v1", "Job", "jobs")
CronJob: Final = KindName("batch", "v1", "CronJob", "cronjobs")
ControllerRevision: Final = KindName("apps", "v1", "ControllerRevision", "controllerrevisions")
PodDisruptionBudget: Final = KindName("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets")
Lease: Final = KindName("coordination.k8s.io", "v1", "Lease", "leases")
EndpointSlice: Final = KindName("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices")
StorageClass: Final = _storage("StorageClass", "storageclasses", namespaced=False)
VolumeAttributesClass: Final = _storage("VolumeAttributesClass", "volumeattributesclasses", namespaced=False)
CertificateSigningRequest: Final = KindName(
    "certificates.k8s.io", "v1", "CertificateSigningRequest", "certificatesigningrequests", namespaced=False
)
CustomResourceDefinition: Final = KindName(
    "apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", namespaced=False
)
Role: Final = _rbac("Role", "roles")
RoleBinding: Final = _rbac("RoleBinding", "rolebindings")
ClusterRole: Final = _rbac("ClusterRole", "clusterroles", namespaced=False)
ClusterRoleBinding: Final = _rbac("ClusterRoleBinding", "clusterrolebindings", namespaced=False)
Pilot: Final = _navigator("Pilot", "pilots")
ElasticsearchCluster: Final = _navigator("ElasticsearchCluster", "elasticsearchclusters")
CassandraCluster: Final = _navigator("CassandraCluster", "cassandraclusters")
Decision: Final = KindName("pilothouse.io", "v1alpha1", "Decision", "decisions")
Question: Final = KindName("pilothouse.io", "v1alpha1", "Question", "questions")
StoragePool: Final = KindName("pilothouse.io", "v1alpha1", "StoragePool", "storagepools", namespaced=False)
Plan: Final = _k0s("Plan", "plans", namespaced=False)
ControlNode: Final = _k0s("ControlNode", "controlnodes", namespaced=False)
UpdateConfig: Final = _k0s("UpdateConfig", "updateconfigs", namespaced=False)
AutopilotRule: Final = _openstorage("AutopilotRule", "autopilotrules", namespaced=False)
AutopilotRuleObject: Final = _openstorage("AutopilotRuleObject", "autopilotruleobjects")
ActionApproval: Final = _openstorage("ActionApproval", "actionapprovals")
ApplicationPolicy: Final = _openstorage("ApplicationPolicy", "applicationpolicies", namespaced=False)
ApplicationAction: Final = _openstorage("ApplicationAction", "applicationactions")

KNOWN: Final = {(noun.api_version, noun.kind): noun for noun in vars().values() if isinstance(noun, KindName)}
"""The kinds above, by apiVersion and kind."""

CONDITIONED: Final = frozenset({
    Namespace, Node, Pod, Service, PersistentVolumeClaim, StatefulSet, Deployment, ReplicaSet, DaemonSet,
    Job, PodDisruptionBudget, CertificateSigningRequest, CustomResourceDefinition, ControlNode, Pilot,
    ElasticsearchCluster, CassandraCluster, Plan, UpdateConfig, AutopilotRule, ApplicationPolicy,
    ApplicationAction, StoragePool,
})  # fmt: skip
"""Kinds whose status has conditions."""


def noun_of(api_version: str, kind: str) -> KindName:
    """The kind that an object names; an unknown one is taken to be namespaced and regular."""
    known = KNOWN.get((api_version, kind))
    if known is not None:
        return known
    group, _, version = api_version.rpartition("/")
    return KindName(group, version, kind, f"{kind.lower()}s")
