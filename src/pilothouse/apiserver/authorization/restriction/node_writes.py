"""What a node's write may contain, as in Kubernetes' NodeRestriction. All else is refused.

* Its Node: no changes of taints, owners or finalizers; no labels in ``node-restriction.kubernetes.io``, and
  in Kubernetes' own domains only those that describe a machine, as labels attract pods and their secrets;
  ranges, addresses and names as in ``node_claims``.
* The status of its pods, with the node's addresses; of a claim's status, what concerns its volume.
* Of a signal of an update plan, on its Node or ControlNode: the next step. The status of its ControlNode.
* Volumes for claims scheduled to it (``kept_volumes``). Its lease, owned by its Node.
* Its StoragePools, owned by its Node; not what is asked of them (``storage_pool_nodes``).
* Certificate requests for its own name; tokens bound to its pods, for audiences that the pod requests.
"""

from __future__ import annotations

from base64 import b64decode
from typing import Any, NoReturn

from pilothouse.api.k0s import v1beta2
from pilothouse.api.k0s.signals import DATA_ANNOTATION, VERSION_ANNOTATION, report_problem
from pilothouse.api.k0s.v1beta2 import RUNNING_VERSION
from pilothouse.api.pilothouse import v1alpha1
from pilothouse.apiserver.authentication.authenticator import AUDIENCE
from pilothouse.apiserver.authorization.restriction.bound_pods import BoundPods
from pilothouse.apiserver.authorization.restriction.identity import NODES
from pilothouse.apiserver.authorization.restriction.kept_volumes import KeptVolumes
from pilothouse.apiserver.authorization.restriction.node_claims import NodeClaims
from pilothouse.apiserver.authorization.restriction.node_scope import LEASE_NAMESPACE
from pilothouse.apiserver.authorization.restriction.storage_pool_nodes import StoragePoolNodes
from pilothouse.apiserver.endpoints.call import ResourceRequest
from pilothouse.meta import errors
from pilothouse.meta.kind import Object
from pilothouse.pki.request_signing import RequestError, read_request

_OWN_DOMAIN = "node-restriction.kubernetes.io"
_DOMAINS = ("kubernetes.io", "k8s.io")
_FREE_DOMAINS = ("kubelet.kubernetes.io", "node.kubernetes.io")
_LABELS = frozenset(
    {
        "kubernetes.io/hostname",
        "kubernetes.io/os",
        "kubernetes.io/arch",
        "topology.kubernetes.io/zone",
        "topology.kubernetes.io/region",
        "failure-domain.beta.kubernetes.io/zone",
        "failure-domain.beta.kubernetes.io/region",
        "beta.kubernetes.io/instance-type",
        "beta.kubernetes.io/os",
        "beta.kubernetes.io/arch",
    }
)
_CLAIM_STATUS = frozenset(
    {
        "capacity",
        "conditions",
        "allocatedResources",
        "allocatedResourceStatuses",
        "currentVolumeAttributesClassName",
        "modifyVolumeStatus",
    }
)
_PLAN_DOMAIN = f"{v1beta2.GROUP}/"
SIGNAL_ANNOTATIONS = (VERSION_ANNOTATION, DATA_ANNOTATION)
_SIGNERS = ("kubernetes.io/kube-apiserver-client-kubelet", "kubernetes.io/kubelet-serving")


class NodeWrites:
    def __init__(
        self, pods: BoundPods, volumes: KeptVolumes, claims: NodeClaims, pools: StoragePoolNodes
    ) -> None:
        self._pods = pods
        self._volumes = volumes
        self._claims = claims
        self._pools = pools

    def check(self, node: str, call: ResourceRequest, new: Object, old: Object | None) -> None:
        kind = call.served.kind
        match kind.group, kind.plural, call.subresource:
            case "", "nodes", "":
                _check_node(node, call, new, old)
                self._check_claims(node, call, new, old)
            case "", "nodes", "status":
                if call.name != node:
                    _refuse(call, new, f"node '{node}' may write its own status only")
                _check_node(node, call, new, old)
                self._check_claims(node, call, new, old)
            case v1beta2.GROUP, "controlnodes", "" | "status":
                _check_control_node(node, call, new, old)
                if problem := self._claims.control_node_problem(new, old, peer=call.request.peer):
                    _refuse(call, new, problem)
            case "", "pods", "status":
                if old is None or (old.get("spec") or {}).get("nodeName") != node:
                    _refuse(call, new, f"node '{node}' may write the status of pods that run on it")
                _check_metadata_kept(call, new, old)
                if problem := self._claims.pod_problem(node, new, old):
                    _refuse(call, new, problem)
            case "", "persistentvolumeclaims", "status":
                _check_metadata_kept(call, new, old)
                _check_claim(call, new, old)
            case "", "persistentvolumes", "":
                if wrong := self._volumes.check(node, new, old):
                    _refuse(call, new, wrong)
            case v1alpha1.GROUP, "storagepools", "" | "status":
                if wrong := self._pools.check(node, new, old):
                    _refuse(call, new, wrong)
            case "coordination.k8s.io", "leases", "":
                _check_lease(node, call, new, old)
            case "certificates.k8s.io", "certificatesigningrequests", "":
                _check_request(node, call, new)
            case "" | "events.k8s.io", "events", "":
                return
            case _:
                _refuse(call, new, f"node '{node}' may not write this")

    def _check_claims(self, node: str, call: ResourceRequest, new: Object, old: Object | None) -> None:
        request = call.request
        if problem := self._claims.problem(node, new, old, peer=request.peer, alone=request.claims_alone):
            _refuse(call, new, problem)

    def check_token_request(self, node: str, call: ResourceRequest, request: Any) -> None:
        """403 unless the token is bound to a pod of the node that runs under the account."""
        spec = request.get("spec") if isinstance(request, dict) else None
        if not isinstance(spec, dict):
            spec = {}  # What is wrong with it is for the mint to say; as it stands it is bound to nothing.
        bound = spec.get("boundObjectRef")
        if not isinstance(bound, dict) or bound.get("kind") != "Pod" or not bound.get("name"):
            _refuse_token(call, "spec.boundObjectRef: a node asks for tokens that are bound to a pod")
        pod = self._pods.find(call.namespace, str(bound["name"]))
        if pod is None or pod.node != node or pod.account != call.name:
            detail = f'"{bound["name"]}" is no pod of node \'{node}\' that runs as "{call.name}"'
            _refuse_token(call, f"spec.boundObjectRef.name: {detail}")
        if bound.get("uid") != pod.uid:
            _refuse_token(call, "spec.boundObjectRef.uid: must be the pod's uid")
        for audience in spec.get("audiences") or ():
            if audience != AUDIENCE and audience not in pod.audiences:
                detail = f'no volume of the pod asks for a token for "{audience}"'
                _refuse_token(call, f"spec.audiences: {detail}")


def _check_node(node: str, call: ResourceRequest, new: Object, old: Object | None) -> None:
    metadata = new["metadata"]
    if metadata.get("name") != node:
        _refuse(call, new, f"node '{node}' may write its own Node only")
    before = old["metadata"] if old is not None else {}
    for field in ("ownerReferences", "finalizers"):
        if (metadata.get(field) or None) != (before.get(field) or None):
            _refuse(call, new, f"metadata.{field}: a node may not set or change it")
    if old is not None and _taints(new) != _taints(old):
        _refuse(call, new, "spec.taints: a node may not change its taints")
    if old is not None and _is_cordoned(old) and not _is_cordoned(new):
        _refuse(call, new, "spec.unschedulable: a node that was cordoned may not uncordon itself")
    _check_signal(call, new, before)
    labels, earlier = metadata.get("labels") or {}, before.get("labels") or {}
    changed = {label for label in labels.keys() | earlier.keys() if labels.get(label) != earlier.get(label)}
    forbidden = sorted(filter(_is_reserved, changed))
    if forbidden:
        _refuse(call, new, f"metadata.labels: a node may not set or change {', '.join(forbidden)}")


def _check_signal(call: ResourceRequest, new: Object, before: Object) -> None:
    """A node reports how far it is with an update, and starts none."""
    annotations, earlier = new["metadata"].get("annotations") or {}, before.get("annotations") or {}
    if problem := report_problem(earlier, annotations):
        _refuse(call, new, f"metadata.annotations: {problem}")
    for name in sorted(annotations.keys() | earlier.keys()):
        if not name.startswith(_PLAN_DOMAIN) or name == RUNNING_VERSION:
            continue
        # By one of these a drain knows that a plan has cordoned the node.
        if annotations.get(name) != earlier.get(name):
            _refuse(call, new, f"metadata.annotations[{name}]: a node may not set or change it")


def _check_control_node(node: str, call: ResourceRequest, new: Object, old: Object | None) -> None:
    """Of its ControlNode, which the manager of the machine has created, a node changes signal and status."""
    if call.name != node or old is None:
        _refuse(call, new, f"node '{node}' may write its own ControlNode only, once that exists")
    _check_signal(call, new, old["metadata"])
    for field in ("labels", "annotations", "ownerReferences", "finalizers"):
        if _without_signal(new["metadata"].get(field)) != _without_signal(old["metadata"].get(field)):
            _refuse(call, new, f"metadata.{field}: a node may not change it")
    # By its heartbeat: one that is silent must not hide it.
    if _conditions(new) != _conditions(old):
        _refuse(call, new, "status.conditions: a node may not change it")


def _conditions(obj: Object) -> object:
    return (obj.get("status") or {}).get("conditions") or []


def _without_signal(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: each for key, each in value.items() if key not in SIGNAL_ANNOTATIONS}
    return value or {}


def _check_metadata_kept(call: ResourceRequest, new: Object, old: Object | None) -> None:
    """A status write can also set labels, by which a node could draw the traffic of a Service to its pods."""
    before = old["metadata"] if old is not None else {}
    for field in ("labels", "annotations"):
        if (new["metadata"].get(field) or None) != (before.get(field) or None):
            _refuse(call, new, f"metadata.{field}: a node may not change it with the status")


def _is_reserved(label: str) -> bool:
    """Whether nodes may not set a label on themselves."""
    domain, slash, _ = label.partition("/")
    if not slash or label in _LABELS:
        return False
    if _within(domain, _OWN_DOMAIN):
        return True
    return any(_within(domain, each) for each in _DOMAINS) and not any(
        _within(domain, each) for each in _FREE_DOMAINS
    )


def _within(domain: str, other: str) -> bool:
    return domain == other or domain.endswith(f".{other}")


def _taints(obj: Object) -> object:
    return (obj.get("spec") or {}).get("taints") or []


def _is_cordoned(obj: Object) -> bool:
    return bool((obj.get("spec") or {}).get("unschedulable"))


def _check_claim(call: ResourceRequest, new: Object, old: Object | None) -> None:
    status, before = new.get("status") or {}, (old or {}).get("status") or {}
    changed = {field for field in status.keys() | before.keys() if status.get(field) != before.get(field)}
    if beyond := sorted(changed - _CLAIM_STATUS):
        _refuse(call, new, f"status.{beyond[0]}: a node writes what concerns a claim's volume only")


def _check_lease(node: str, call: ResourceRequest, new: Object, old: Object | None) -> None:
    metadata = new["metadata"]
    if metadata.get("name") != node or call.namespace != LEASE_NAMESPACE:
        _refuse(call, new, f"node '{node}' may write the lease {LEASE_NAMESPACE}/{node} only")
    for index, owner in enumerate(metadata.get("ownerReferences") or ()):
        if (owner.get("kind"), owner.get("name")) != ("Node", node):
            _refuse(call, new, f"metadata.ownerReferences[{index}]: may name its own Node only")
    before = old["metadata"].get("finalizers") if old is not None else None
    if (metadata.get("finalizers") or None) != (before or None):
        _refuse(call, new, "metadata.finalizers: a node may not set or change it")


def _check_request(node: str, call: ResourceRequest, new: Object) -> None:
    spec, metadata = new.get("spec") or {}, new["metadata"]
    if metadata.get("ownerReferences") or metadata.get("finalizers"):
        _refuse(
            call,
            new,
            "metadata: a node's request has neither owners nor finalizers; they would hold others back",
        )
    if spec.get("signerName") not in _SIGNERS:
        _refuse(call, new, f"spec.signerName: a node asks for certificates of {' or '.join(_SIGNERS)}")
    try:
        subject = read_request(b64decode(spec.get("request") or ""))
    except (ValueError, RequestError):
        _refuse(call, new, "spec.request: can't be read")
    if subject.common_name != f"system:node:{node}" or subject.organizations != (NODES,):
        detail = f"must be for the user system:node:{node} in the group {NODES} and no other"
        _refuse(call, new, f"spec.request: {detail}")


def _refuse(call: ResourceRequest, obj: Object, detail: str) -> NoReturn:
    kind = call.served.kind
    raise errors.forbidden(kind.plural, kind.group, obj["metadata"].get("name") or call.name, detail)


def _refuse_token(call: ResourceRequest, detail: str) -> NoReturn:
    raise errors.forbidden("serviceaccounts", "", call.name, detail)
