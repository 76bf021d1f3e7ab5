"""The kinds by name, for those who ask an API server about them.

    Pod.path("default", "web-0")                # "/api/v1/namespaces/default/pods/web-0"
    StatefulSet.path("default", "web", "status")

A ``Noun`` is what a client has to know of a kind: how it is spelt in paths and objects. Fields, defaults and validation
are the server's business (``meta.kind.Kind``).
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import quote

import msgspec

from pilothouse.meta import errors

_PLAIN: Final = re.compile(r"[A-Za-z0-9._~-]+")


class Noun(msgspec.Struct, frozen=True, cache_hash=True):
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
        """Where it is served: all of it, a namespace's, or one object. Raises ``StatusError`` for a name that none can have."""
        if "/" in name or "/" in namespace:
            # A server takes what is quoted for a separator, too: this would be the path of something else.
            raise errors.not_found(self.plural, self.group, name)
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        path = f"{root}/namespaces{_step(namespace)}" if self.namespaced and namespace else root
        return f"{path}/{self.plural}{_step(name)}{_step(subresource)}"


def _step(part: str) -> str:
    """A step of a path; most names need no quoting, and to see that takes less than to quote them."""
    if not part:
        return ""
    return f"/{part}" if _PLAIN.fullmatch(part) else f"/{quote(part, safe='')}"


Namespace: Final = Noun("", "v1", "Namespace", "namespaces", namespaced=False)
Node: Final = Noun("", "v1", "Node", "nodes", namespaced=False)
Pod: Final = Noun("", "v1", "Pod", "pods")
Service: Final = Noun("", "v1", "Service", "services")
Endpoints: Final = Noun("", "v1", "Endpoints", "endpoints")
ConfigMap: Final = Noun("", "v1", "ConfigMap", "configmaps")
Secret: Final = Noun("", "v1", "Secret", "secrets")
ServiceAccount: Final = Noun("", "v1", "ServiceAccount", "serviceaccounts")
PersistentVolume: Final = Noun("", "v1", "PersistentVolume", "persistentvolumes", namespaced=False)
PersistentVolumeClaim: Final = Noun("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims")
CoreEvent: Final = Noun("", "v1", "Event", "events")
Event: Final = Noun("events.k8s.io", "v1", "Event", "events")
StatefulSet: Final = Noun("apps", "v1", "StatefulSet", "statefulsets")
Deployment: Final = Noun("apps", "v1", "Deployment", "deployments")
ReplicaSet: Final = Noun("apps", "v1", "ReplicaSet", "replicasets")
DaemonSet: Final = Noun("apps", "v1", "DaemonSet", "daemonsets")
Job: Final = Noun("batch", "v1", "Job", "jobs")
CronJob: Final = Noun("batch", "v1", "CronJob", "cronjobs")
ControllerRevision: Final = Noun("apps", "v1", "ControllerRevision", "controllerrevisions")
PodDisruptionBudget: Final = Noun("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets")
Lease: Final = Noun("coordination.k8s.io", "v1", "Lease", "leases")
EndpointSlice: Final = Noun("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices")
StorageClass: Final = Noun("storage.k8s.io", "v1", "StorageClass", "storageclasses", namespaced=False)
VolumeAttributesClass: Final = Noun(
    "storage.k8s.io", "v1", "VolumeAttributesClass", "volumeattributesclasses", namespaced=False
)
CertificateSigningRequest: Final = Noun(
    "certificates.k8s.io", "v1", "CertificateSigningRequest", "certificatesigningrequests", namespaced=False
)
CustomResourceDefinition: Final = Noun(
    "apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", namespaced=False
)
Role: Final = Noun("rbac.authorization.k8s.io", "v1", "Role", "roles")
RoleBinding: Final = Noun("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings")
ClusterRole: Final = Noun("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles", namespaced=False)
ClusterRoleBinding: Final = Noun(
    "rbac.authorization.k8s.io", "v1", "ClusterRoleBinding", "clusterrolebindings", namespaced=False
)
Pilot: Final = Noun("navigator.jetstack.io", "v1beta1", "Pilot", "pilots")
ElasticsearchCluster: Final = Noun(
    "navigator.jetstack.io", "v1beta1", "ElasticsearchCluster", "elasticsearchclusters"
)
CassandraCluster: Final = Noun("navigator.jetstack.io", "v1beta1", "CassandraCluster", "cassandraclusters")
Decision: Final = Noun("pilothouse.io", "v1alpha1", "Decision", "decisions")
Plan: Final = Noun("autopilot.k0sproject.io", "v1beta2", "Plan", "plans", namespaced=False)
ControlNode: Final = Noun(
    "autopilot.k0sproject.io", "v1beta2", "ControlNode", "controlnodes", namespaced=False
)
UpdateConfig: Final = Noun(
    "autopilot.k0sproject.io", "v1beta2", "UpdateConfig", "updateconfigs", namespaced=False
)
AutopilotRule: Final = Noun(
    "autopilot.libopenstorage.org", "v1alpha1", "AutopilotRule", "autopilotrules", namespaced=False
)
AutopilotRuleObject: Final = Noun(
    "autopilot.libopenstorage.org", "v1alpha1", "AutopilotRuleObject", "autopilotruleobjects"
)
ActionApproval: Final = Noun("autopilot.libopenstorage.org", "v1alpha1", "ActionApproval", "actionapprovals")
ApplicationPolicy: Final = Noun(
    "autopilot.libopenstorage.org", "v1alpha1", "ApplicationPolicy", "applicationpolicies", namespaced=False
)
ApplicationAction: Final = Noun(
    "autopilot.libopenstorage.org", "v1alpha1", "ApplicationAction", "applicationactions"
)

KNOWN: Final = {(noun.api_version, noun.kind): noun for noun in vars().values() if isinstance(noun, Noun)}
"""Those above, by apiVersion and kind."""

CONDITIONED: Final = frozenset(
    {
        Namespace,
        Node,
        Pod,
        Service,
        PersistentVolumeClaim,
        StatefulSet,
        Deployment,
        ReplicaSet,
        DaemonSet,
        Job,
        PodDisruptionBudget,
        CertificateSigningRequest,
        CustomResourceDefinition,
        Pilot,
        ElasticsearchCluster,
        CassandraCluster,
        Plan,
        UpdateConfig,
        AutopilotRule,
        ApplicationPolicy,
        ApplicationAction,
    }
)
"""Those whose status has conditions."""


def noun_of(api_version: str, kind: str) -> Noun:
    """The noun that an object names. One that is not listed here is taken to be namespaced and regular."""
    known = KNOWN.get((api_version, kind))
    if known is not None:
        return known
    group, _, version = api_version.rpartition("/")
    return Noun(group, version, kind, f"{kind.lower()}s")
