"""The nouns of an API, as a client addresses them.

    PODS.path("default", "web-0", "status")      # "/api/v1/namespaces/default/pods/web-0/status"
    Resource.of(KIND)                             # of a kind that pilothouse.api declares
    await discovery.find("Database")              # of a kind that only the server knows

Those that the project's own parts use are listed here, so that a pilot need not load the declarations of every kind.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol
from urllib.parse import quote


class Declared(Protocol):
    """What a declaration of a kind tells about its address."""

    @property
    def group(self) -> str: ...
    @property
    def version(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def plural(self) -> str: ...
    @property
    def namespaced(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class Resource:
    """One version of a noun: where its objects are, and what one of them is called."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True

    @classmethod
    def of(cls, declared: Declared) -> Resource:
        """Of a kind that ``pilothouse.api`` declares."""
        return cls(declared.group, declared.version, declared.plural, declared.name, declared.namespaced)

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified(self) -> str:
        """``statefulsets.apps``, or ``pods`` for the core group."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """The address of a collection, an object, or what is below an object."""
        parts = ["", "apis", self.group, self.version] if self.group else ["", "api", self.version]
        if namespace and self.namespaced:
            parts += ["namespaces", quote(namespace, safe="")]
        parts.append(self.plural)
        if name:
            parts.append(quote(name, safe=""))
        if subresource:
            parts.append(subresource)
        return "/".join(parts)

    def __str__(self) -> str:
        return f"{self.kind} ({self.api_version})"


NAMESPACES: Final = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
NODES: Final = Resource("", "v1", "nodes", "Node", namespaced=False)
PODS: Final = Resource("", "v1", "pods", "Pod")
SERVICES: Final = Resource("", "v1", "services", "Service")
ENDPOINTS: Final = Resource("", "v1", "endpoints", "Endpoints")
CONFIG_MAPS: Final = Resource("", "v1", "configmaps", "ConfigMap")
SECRETS: Final = Resource("", "v1", "secrets", "Secret")
SERVICE_ACCOUNTS: Final = Resource("", "v1", "serviceaccounts", "ServiceAccount")
CLAIMS: Final = Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim")
VOLUMES: Final = Resource("", "v1", "persistentvolumes", "PersistentVolume", namespaced=False)
EVENTS: Final = Resource("events.k8s.io", "v1", "events", "Event")
STATEFUL_SETS: Final = Resource("apps", "v1", "statefulsets", "StatefulSet")
CONTROLLER_REVISIONS: Final = Resource("apps", "v1", "controllerrevisions", "ControllerRevision")
DISRUPTION_BUDGETS: Final = Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget")
STORAGE_CLASSES: Final = Resource("storage.k8s.io", "v1", "storageclasses", "StorageClass", namespaced=False)
LEASES: Final = Resource("coordination.k8s.io", "v1", "leases", "Lease")
ENDPOINT_SLICES: Final = Resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice")
SIGNING_REQUESTS: Final = Resource(
    "certificates.k8s.io",
    "v1",
    "certificatesigningrequests",
    "CertificateSigningRequest",
    namespaced=False,
)
DEFINITIONS: Final = Resource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False
)
ELASTICSEARCH_CLUSTERS: Final = Resource(
    "navigator.jetstack.io", "v1beta1", "elasticsearchclusters", "ElasticsearchCluster"
)
CASSANDRA_CLUSTERS: Final = Resource(
    "navigator.jetstack.io", "v1beta1", "cassandraclusters", "CassandraCluster"
)
PILOTS: Final = Resource("navigator.jetstack.io", "v1beta1", "pilots", "Pilot")
PLANS: Final = Resource("autopilot.k0sproject.io", "v1beta2", "plans", "Plan", namespaced=False)
CONTROL_NODES: Final = Resource(
    "autopilot.k0sproject.io", "v1beta2", "controlnodes", "ControlNode", namespaced=False
)
UPDATE_CONFIGS: Final = Resource(
    "autopilot.k0sproject.io", "v1beta2", "updateconfigs", "UpdateConfig", namespaced=False
)
AUTOPILOT_RULES: Final = Resource(
    "autopilot.libopenstorage.org", "v1alpha1", "autopilotrules", "AutopilotRule", namespaced=False
)
AUTOPILOT_RULE_OBJECTS: Final = Resource(
    "autopilot.libopenstorage.org", "v1alpha1", "autopilotruleobjects", "AutopilotRuleObject"
)
ACTION_APPROVALS: Final = Resource(
    "autopilot.libopenstorage.org", "v1alpha1", "actionapprovals", "ActionApproval"
)
APPLICATION_POLICIES: Final = Resource(
    "autopilot.libopenstorage.org", "v1alpha1", "applicationpolicies", "ApplicationPolicy", namespaced=False
)
APPLICATION_ACTIONS: Final = Resource(
    "autopilot.libopenstorage.org", "v1alpha1", "applicationactions", "ApplicationAction"
)
DECISIONS: Final = Resource("pilothouse.io", "v1alpha1", "decisions", "Decision")
