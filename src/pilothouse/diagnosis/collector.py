"""Reads from the API what ``pilothouse why`` needs to know about an object, its owners and its dependents.

    findings = await collect(api, StatefulSet, "web", "default", controllers, lease)
    findings.about.decisions        # what each controller last read, decided and did
    findings.dependents             # the pods of a set, the sets and pilots of a cluster
    findings.leader                 # the controller-manager that leads

It draws no conclusions: see ``explanation``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pilothouse.api.kind_names import (
    CoreEvent,
    Decision,
    KindName,
    Lease,
    Namespace,
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
    Pilot,
    Pod,
    StatefulSet,
    noun_of,
)
from pilothouse.api.local_volumes import ADOPTS_VOLUMES_OF, original_of
from pilothouse.api.objects import Object, Tree
from pilothouse.api.pod_health import Trouble, failed_container, ready, trouble
from pilothouse.base.error_lines import error_lines
from pilothouse.base.rfc3339 import format_time, parse_time
from pilothouse.client.api import Api
from pilothouse.client.transport import ClientRequest, TransportError
from pilothouse.diagnosis.findings import Findings, LeaseHolder, ObjectFindings, event_time
from pilothouse.meta.errors import StatusError
from pilothouse.runtime.controller import EVERY, Controller

KUBE_SYSTEM = "kube-system"
_MAX_EVENTS = 5
_DEPENDENT_KINDS = (Pod, StatefulSet, PersistentVolumeClaim, Pilot)
"""Kinds that are searched for dependents."""
_MAX_LOGS = 3
"""Dependents whose logs are read: their nodes may be slow to answer, or unreachable."""
_LOG_LINES = 60
_LOG_BYTES = 64 * 1024
_LOG_SECONDS = 5.0
_MAX_OWNERS = 5
"""How far the chain of owners is followed."""


async def collect(
    api: Api,
    noun: KindName,
    name: str,
    namespace: str,
    controllers: Sequence[Controller],
    lease: tuple[str, str],
) -> Findings:
    """Read everything. Raises what ``Api`` raises."""
    space = namespace if noun.namespaced else ""
    one = await api.find(noun, name, space)
    ours = (await api.version()).is_ours
    responsible = [each for each in controllers if _is_for(each, noun)]
    served = await _decisions(api, space)
    decisions = served or []
    about = await _read(api, one, decisions) if one is not None else _missing(noun, space, name, decisions)
    dependents = await _dependents(api, one) if one is not None else []
    failed = [each.uid for each in dependents if each.noun == Pod and failed_container(each) is not None]
    with_log = frozenset(failed[:_MAX_LOGS])
    return Findings(
        about,
        tuple([await _read(api, each, decisions) for each in await _owners(api, one)]),
        tuple([await _read(api, each, decisions, with_log=each.uid in with_log) for each in dependents]),
        tuple(each.name for each in responsible),
        () if ours else tuple(each.name for each in responsible if each.standalone),
        await _holder(api, lease),
        served is not None,
    )


def _is_for(controller: Controller, noun: KindName) -> bool:
    primary = controller.primary
    return primary != EVERY and (primary.group, primary.kind) == (noun.group, noun.kind)


async def _decisions(api: Api, namespace: str) -> list[Object] | None:
    """The Decisions about objects of a namespace; None if the server has no such kind."""
    try:
        return (await api.list(Decision, namespace or "default")).objects
    except StatusError as refusal:
        if refusal.code != 404:
            raise
        return None


async def _read(
    api: Api, one: Object, decisions: Iterable[Object], *, with_log: bool = True
) -> ObjectFindings:
    problem = None
    if one.noun == Pod and (one.deleting or not ready(one)):
        problem = trouble(one, await _node_of(api, one))
    elif one.noun in (PersistentVolume, PersistentVolumeClaim):
        problem = await _volume_trouble(api, one)
    return ObjectFindings(
        one.api_version,
        one.kind,
        one.namespace,
        one.name,
        version=one.resource_version,
        deleting=_deletion_requested(one),
        finalizers=tuple(one.finalizers),
        decisions=_about(decisions, one.kind, one.namespace, one.name, one.uid),
        conditions=tuple(one.status.get("conditions") or ()),
        events=await _events(api, one),
        problem=problem.sentence if problem is not None else "",
        remedy=problem.remedy if problem is not None else "",
        log_errors=await _log_errors(api, one)
        if one.noun == Pod and problem is not None and with_log
        else "",
    )


async def _log_errors(api: Api, pod: Object) -> str:
    """The error lines in the log of the first container that failed without a message; may be empty."""
    found = failed_container(pod)
    if found is None:
        return ""
    container, previous = found
    query = {"container": container, "tailLines": str(_LOG_LINES), "limitBytes": str(_LOG_BYTES)}
    query |= {"previous": "true"} if previous else {}
    try:
        call = ClientRequest("GET", Pod.path(pod.namespace, pod.name, "log"), query, longest=_LOG_BYTES * 2)
        answer = await api.read(call, _LOG_SECONDS)
    except (StatusError, TransportError):
        # The pod may be gone, its node unreachable, or the caller not allowed to read logs.
        return ""
    return error_lines(answer.body.decode(errors="replace").splitlines())


async def _volume_trouble(api: Api, one: Object) -> Trouble | None:
    """Why the volume, or that of the claim, is not this control plane's; None if it is."""
    name = one.spec.get("volumeName") if one.noun == PersistentVolumeClaim else one.name
    try:
        volume = await api.find(PersistentVolume, name) if name else None
        kube_system = await api.find(Namespace, KUBE_SYSTEM) if volume is not None else None
    except StatusError as refusal:
        if refusal.code == 403:  # The caller may be limited to a namespace.
            return None
        raise
    if volume is None or kube_system is None or not (original := original_of(volume, kube_system)):
        return None
    return Trouble(
        "VolumeOfOriginal",
        f"volume {volume.name} belongs to the control plane that this one was restored from (its "
        f"{KUBE_SYSTEM} has the uid {original}): it is neither mounted, expanded nor deleted here",
        f"if that control plane is gone for good: kubectl annotate namespace {KUBE_SYSTEM} "
        f"{ADOPTS_VOLUMES_OF}={original}",
    )


def _deletion_requested(one: Object) -> str:
    """When its deletion was requested: ``deletionTimestamp`` is later, by the grace period of a pod."""
    if not one.deletion_timestamp:
        return ""
    grace = float(one.meta.get("deletionGracePeriodSeconds") or 0)
    return format_time(parse_time(one.deletion_timestamp) - grace)


async def _node_of(api: Api, pod: Object) -> Object | None:
    name = pod.spec.get("nodeName")
    try:
        return await api.find(Node, name) if name else None
    except StatusError as refusal:
        if refusal.code == 403:  # The caller may be limited to a namespace.
            return None
        raise


def _missing(noun: KindName, namespace: str, name: str, decisions: Iterable[Object]) -> ObjectFindings:
    """Decisions about an object that is gone stay until they are garbage-collected."""
    found = _about(decisions, noun.kind, namespace, name, "")
    return ObjectFindings(noun.api_version, noun.kind, namespace, name, exists=False, decisions=found)


def _about(decisions: Iterable[Object], kind: str, namespace: str, name: str, uid: str) -> tuple[Tree, ...]:
    found = []
    for decision in decisions:
        about = decision.get("object") or {}
        named = (about.get("kind"), about.get("namespace", ""), about.get("name")) == (kind, namespace, name)
        if named and uid in ("", about.get("uid")):
            meta = {name: value for name, value in decision.meta.items() if name != "managedFields"}
            found.append({**decision.tree, "metadata": meta})
    return tuple(found)


async def _events(api: Api, one: Object) -> tuple[Tree, ...]:
    page = await api.list(
        CoreEvent,
        one.namespace or "default",
        fields=f"involvedObject.uid={one.uid},involvedObject.name={one.name}",
    )
    events = sorted((each.tree for each in page.objects), key=event_time, reverse=True)
    return tuple(events[:_MAX_EVENTS])


async def _owners(api: Api, one: Object | None) -> list[Object]:
    """The chain of controlling owners that exist, without repeating objects that own each other."""
    found: list[Object] = []
    seen = {one.uid} if one is not None else set()
    while one is not None and len(found) < _MAX_OWNERS and (reference := one.controller) is not None:
        noun = noun_of(reference["apiVersion"], reference["kind"])
        one = await api.find(noun, reference["name"], one.namespace if noun.namespaced else "")
        if one is None or one.uid in seen:
            break
        seen.add(one.uid)
        found.append(one)
    return found


async def _dependents(api: Api, one: Object) -> list[Object]:
    """What it controls, and what those control: a cluster's sets and their pods."""
    if not one.namespace:
        return []
    listed = [each for noun in _DEPENDENT_KINDS for each in await _list(api, noun, one.namespace)]
    direct = [each for each in listed if each.owned_by(one)]
    indirect = [each for each in listed if any(each.owned_by(owner) for owner in direct)]
    return sorted([*direct, *indirect], key=lambda each: (each.kind, each.name))


async def _list(api: Api, noun: KindName, namespace: str) -> list[Object]:
    try:
        return (await api.list(noun, namespace)).objects
    except StatusError as refusal:
        # A Kubernetes without our CRDs, or a caller who may not list this kind.
        if refusal.code in (403, 404):
            return []
        raise


async def _holder(api: Api, lease: tuple[str, str]) -> LeaseHolder:
    namespace, name = lease
    path = f"{namespace}/{name}"
    found = await api.find(Lease, name, namespace)
    if found is None:
        return LeaseHolder(path)
    return LeaseHolder(
        path,
        found.spec.get("holderIdentity") or "",
        found.spec.get("renewTime") or "",
        int(found.spec.get("leaseDurationSeconds") or 0),
    )
