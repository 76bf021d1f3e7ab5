"""What is known of an object, and of those above and below it: gathered from the API for ``pilothouse why``.

    findings = await find_out(api, StatefulSet, "web", "default", controllers, lease)
    findings.about.records          # what each controller last saw, decided and did
    findings.members                # the pods of a set, the sets and pilots of a cluster
    findings.office                 # who decides at all

It reads, and draws no conclusions: see ``explaining``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from pilothouse.api.kind_names import (
    CoreEvent,
    Decision,
    KindName,
    Lease,
    Node,
    PersistentVolumeClaim,
    Pilot,
    Pod,
    StatefulSet,
    noun_of,
)
from pilothouse.api.objects import Object, Tree
from pilothouse.api.pod_health import failed_container, ready, trouble
from pilothouse.base.error_lines import error_lines
from pilothouse.base.rfc3339 import format_time, parse_time
from pilothouse.client.api import Api
from pilothouse.client.transport import ClientRequest, TransportError
from pilothouse.meta.errors import StatusError
from pilothouse.runtime.controller import EVERY, Controller

MOST_EVENTS = 5
_MEMBERS = (Pod, StatefulSet, PersistentVolumeClaim, Pilot)
"""Kinds that are looked through for what belongs to an object."""
_MOST_LOGS = 3
"""Members whose logs are read: their nodes may be slow to answer, or away."""
_LOG_LINES = 60
_LOG_BYTES = 64 * 1024
_LOG_SECONDS = 5.0
_HIGHEST = 5
"""Owners of owners that are followed."""


class ObjectFindings(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One object, and what is on record about it."""

    api_version: str
    kind: str
    namespace: str
    name: str
    there: bool = True
    version: str = ""
    deleting: str = ""
    """Since when it is asked to go."""
    finalizers: tuple[str, ...] = ()
    records: tuple[Tree, ...] = ()
    """The ``Decision`` objects about it."""
    conditions: tuple[Tree, ...] = ()
    events: tuple[Tree, ...] = ()
    """The last few, the newest first."""
    trouble: str = ""
    """Why a pod is not ready."""
    remedy: str = ""
    last_words: str = ""
    """Of a container that failed and left no message: the error lines at the end of its log."""


class LeaseHolder(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Who decides, by the Lease of the controller-manager."""

    lease: str
    name: str = ""
    """Empty if nobody holds it."""
    renewed: str = ""
    seconds: int = 0
    """How long a renewal is good for."""


class Findings(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """All that was found."""

    about: ObjectFindings
    owners: tuple[ObjectFindings, ...] = ()
    """Who controls it, and so on upwards."""
    members: tuple[ObjectFindings, ...] = ()
    """What it controls, directly or by one step."""
    deciders: tuple[str, ...] = ()
    """The controllers that decide about this kind."""
    foreign: tuple[str, ...] = ()
    """Those of them that stay off because the server is a real Kubernetes."""
    office: LeaseHolder = LeaseHolder("")
    records_kept: bool = True
    """False if the server has no ``Decision`` kind."""


async def find_out(
    api: Api,
    noun: KindName,
    name: str,
    namespace: str,
    controllers: Sequence[Controller],
    lease: tuple[str, str],
) -> Findings:
    """Ask the server. Raises what ``Api`` raises."""
    space = namespace if noun.namespaced else ""
    one = await api.find(noun, name, space)
    ours = (await api.version()).is_ours
    deciders = [each for each in controllers if _decides(each, noun)]
    page = await _records(api, space)
    records = page or []
    about = await _known(api, one, records) if one is not None else _missing(noun, space, name, records)
    members = await _members(api, one) if one is not None else []
    failed = [each.uid for each in members if each.noun == Pod and failed_container(each) is not None]
    heard = frozenset(failed[:_MOST_LOGS])
    return Findings(
        about,
        tuple([await _known(api, each, records) for each in await _owners(api, one)]),
        tuple([await _known(api, each, records, with_log=each.uid in heard) for each in members]),
        tuple(each.name for each in deciders),
        () if ours else tuple(each.name for each in deciders if each.standalone),
        await _holder(api, lease),
        page is not None,
    )


def _decides(controller: Controller, noun: KindName) -> bool:
    primary = controller.primary
    return primary != EVERY and (primary.group, primary.kind) == (noun.group, noun.kind)


async def _records(api: Api, namespace: str) -> list[Object] | None:
    """The decisions on record about objects of a namespace; None where there is no such kind."""
    try:
        return (await api.list(Decision, namespace or "default")).objects
    except StatusError as refusal:
        if refusal.code != 404:
            raise
        return None


async def _known(
    api: Api, one: Object, records: Iterable[Object], *, with_log: bool = True
) -> ObjectFindings:
    why = None
    if one.noun == Pod and (one.deleting or not ready(one)):
        why = trouble(one, await _node_of(api, one) if one.deleting else None)
    return ObjectFindings(
        one.api_version,
        one.kind,
        one.namespace,
        one.name,
        version=one.resource_version,
        deleting=_asked_to_go(one),
        finalizers=tuple(one.finalizers),
        records=_about(records, one.kind, one.namespace, one.name, one.uid),
        conditions=tuple(one.status.get("conditions") or ()),
        events=await _events(api, one),
        trouble=why.sentence if why is not None else "",
        remedy=why.remedy if why is not None else "",
        last_words=await _last_words(api, one) if why is not None and with_log else "",
    )


async def _last_words(api: Api, pod: Object) -> str:
    """The error lines of the first container that failed, if it left no message; empty if its log can't be read."""
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
        # It may be gone, the node away, or the log not for who asks.
        return ""
    return error_lines(answer.body.decode(errors="replace").splitlines())


def _asked_to_go(one: Object) -> str:
    """When its deletion was asked for. The API has the moment by which it is to be gone, which for a pod is its grace later."""
    if not one.deletion_timestamp:
        return ""
    grace = float(one.meta.get("deletionGracePeriodSeconds") or 0)
    return format_time(parse_time(one.deletion_timestamp) - grace)


async def _node_of(api: Api, pod: Object) -> Object | None:
    name = pod.spec.get("nodeName")
    try:
        return await api.find(Node, name) if name else None
    except StatusError as refusal:
        if refusal.code == 403:  # Whoever asks may see a namespace alone.
            return None
        raise


def _missing(noun: KindName, namespace: str, name: str, records: Iterable[Object]) -> ObjectFindings:
    """One that is gone may have left a record, until that is collected."""
    found = _about(records, noun.kind, namespace, name, "")
    return ObjectFindings(noun.api_version, noun.kind, namespace, name, there=False, records=found)


def _about(records: Iterable[Object], kind: str, namespace: str, name: str, uid: str) -> tuple[Tree, ...]:
    found = []
    for record in records:
        about = record.get("object") or {}
        named = (about.get("kind"), about.get("namespace", ""), about.get("name")) == (kind, namespace, name)
        if named and uid in ("", about.get("uid")):
            meta = {name: value for name, value in record.meta.items() if name != "managedFields"}
            found.append({**record.tree, "metadata": meta})
    return tuple(found)


async def _events(api: Api, one: Object) -> tuple[Tree, ...]:
    page = await api.list(
        CoreEvent,
        one.namespace or "default",
        fields=f"involvedObject.uid={one.uid},involvedObject.name={one.name}",
    )
    events = sorted((each.tree for each in page.objects), key=_moment, reverse=True)
    return tuple(events[:MOST_EVENTS])


def _moment(event: Tree) -> str:
    return str(event.get("lastTimestamp") or event.get("eventTime") or event["metadata"]["creationTimestamp"])


async def _owners(api: Api, one: Object | None) -> list[Object]:
    """Upwards, as far as they are there; objects that own each other are named once."""
    found: list[Object] = []
    seen = {one.uid} if one is not None else set()
    while one is not None and len(found) < _HIGHEST and (reference := one.controller) is not None:
        noun = noun_of(reference["apiVersion"], reference["kind"])
        one = await api.find(noun, reference["name"], one.namespace if noun.namespaced else "")
        if one is None or one.uid in seen:
            break
        seen.add(one.uid)
        found.append(one)
    return found


async def _members(api: Api, one: Object) -> list[Object]:
    """What it controls, and what those control: a cluster's sets and their pods."""
    if not one.namespace:
        return []
    around = [each for noun in _MEMBERS for each in await _there(api, noun, one.namespace)]
    near = [each for each in around if each.owned_by(one)]
    beyond = [each for each in around if any(each.owned_by(owner) for owner in near)]
    return sorted([*near, *beyond], key=lambda each: (each.kind, each.name))


async def _there(api: Api, noun: KindName, namespace: str) -> list[Object]:
    try:
        return (await api.list(noun, namespace)).objects
    except StatusError as refusal:
        # A real Kubernetes without our definitions, or somebody who may not see these.
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
