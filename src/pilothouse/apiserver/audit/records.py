"""Audit records: one JSON line of the kind ``Event`` of ``audit.k8s.io/v1`` per stage of a request.

    AuditRecorder(policy, "host-1").line(entry)    # b'{"kind":"Event",…,"stage":"ResponseComplete",…}\\n'

A line is made after the response is sent. Repeated parts (user, address, object) are cached as JSON.
"""

from __future__ import annotations

import time
from functools import lru_cache
from ipaddress import ip_address
from typing import Any

import msgspec
from msgspec import UNSET, Raw, UnsetType

from pilothouse.apiserver.audit import bodies, confidential
from pilothouse.apiserver.audit.audit_policy import AuditLevel, AuditPolicy
from pilothouse.apiserver.audit.request_stage import RequestStage
from pilothouse.apiserver.endpoints.request_info import RequestInfo, locate, verb_of
from pilothouse.apiserver.server.messages import Request, User, is_true
from pilothouse.apiserver.storage.leadership_fence import HEADER

KIND, API_VERSION = "Event", "audit.k8s.io/v1"
INSTANCE = "pilothouse.io/instance"
FENCE = "pilothouse.io/fence"
"""The leadership under which a write was made."""
_DECISION, _REASON = "authorization.k8s.io/decision", "authorization.k8s.io/reason"
_LONGEST_AGENT = 1024
_LONGEST_FENCE = 512
_NAMING = frozenset({"create", "update"})
_REMEMBERED = 4096
_NOBODY = Raw(b"{}")
_MARKS = ('"auditID":"', '"requestReceivedTimestamp":"', '"stageTimestamp":"')
_encode = msgspec.json.Encoder().encode


class AuditEvent(msgspec.Struct, omit_defaults=True, rename="camel"):
    """The record, in the order of its fields."""

    kind: str
    api_version: str
    level: str
    audit_id: str = msgspec.field(name="auditID")
    stage: str
    request_uri: str = msgspec.field(name="requestURI")
    verb: str
    user: Raw
    impersonated_user: Raw | UnsetType = UNSET
    source_ips: Raw | UnsetType = msgspec.field(name="sourceIPs", default=UNSET)
    user_agent: str = ""
    object_ref: Raw | UnsetType = UNSET
    response_status: Raw | UnsetType = UNSET
    request_object: Raw | UnsetType = UNSET
    response_object: Raw | UnsetType = UNSET
    request_received_timestamp: str = ""
    stage_timestamp: str = ""
    annotations: Raw | UnsetType = UNSET


class _Subject(msgspec.Struct, frozen=True):
    """The part of a record that repeats for the same user and request."""

    place: RequestInfo
    verb: str
    level: str
    omit_stages: frozenset[str]
    reference: Raw | UnsetType
    """The object as the path identifies it."""
    records_request: bool
    records_response: bool
    managed_fields: bool


class _Form(msgspec.Struct, frozen=True):
    """A record with the audit id and both time stamps left open."""

    before_id: str
    before_received: str
    tail: str

    @classmethod
    def of(cls, line: bytes) -> _Form:
        """The form of a complete record."""
        text = line.decode()
        number, received, staged = (text.index(mark) + len(mark) for mark in _MARKS)
        return cls(text[:number], text[text.index('"', number) : received], text[text.index('"', staged) :])

    def filled(self, number: str, received: str, staged: str) -> bytes:
        """The record of another request of the same form."""
        return (
            f'{self.before_id}{number}{self.before_received}{received}","stageTimestamp":"{staged}{self.tail}'
        ).encode()


class AuditRecorder:
    """Makes records by a policy, each with the ``instance`` that served the request."""

    def __init__(self, policy: AuditPolicy, instance: str) -> None:
        self.policy = policy
        self._instance = instance
        self._stamps = _Stamps()
        self._subjects: dict[tuple[str, tuple[str, ...], str, str, bool], _Subject | None] = {}
        self._annotations: dict[tuple[bool, str, str] | str, Raw] = {}
        self._forms: dict[tuple[object, ...], _Form | None] = {}

    def line(self, entry: RequestStage) -> bytes | None:
        """The record of a stage; None if the policy omits it."""
        request, number = entry.request, entry.arrival.audit_id
        if request.method != "GET" or request.body or request.impersonator:
            return self._written(entry)
        if entry.answer is not None or entry.status >= 400:
            return self._written(entry)
        if not number.replace("-", "").isalnum():
            # A client may give its own, which has to be escaped.
            return self._written(entry)
        # The records of successful reads differ in id and times only.
        user, verdict, headers = request.user, request.verdict, request.headers
        key = (
            entry.arrival.target,
            user.name,
            user.uid,
            user.groups,
            tuple(user.extra.items()) if user.extra else (),
            request.peer,
            (verdict.allowed, verdict.reason) if verdict is not None else None,
            entry.status,
            entry.stage,
            headers.get("User-Agent"),
            headers.get("X-Forwarded-For"),
            headers.get("X-Real-Ip"),
            headers.get(HEADER),
        )
        try:
            form = self._forms[key]
        except KeyError:
            form = self._formed(entry, key)
        if form is None:
            return None
        stamps = self._stamps
        return form.filled(number, stamps.text(entry.arrival.received), stamps.text(entry.moment))

    def _formed(self, entry: RequestStage, key: tuple[object, ...]) -> _Form | None:
        if len(self._forms) >= _REMEMBERED:
            self._forms.clear()
        line = self._written(entry)
        form = None if line is None else _Form.of(line)
        self._forms[key] = form
        return form

    def _written(self, entry: RequestStage) -> bytes | None:
        request, arrival, stage, status = entry.request, entry.arrival, entry.stage, entry.status
        actor = request.impersonator or request.user
        subject = self._subject(actor, request)
        if subject is None or stage in subject.omit_stages:
            return None
        headers = request.headers
        event = AuditEvent(
            KIND,
            API_VERSION,
            subject.level,
            arrival.audit_id,
            stage,
            _readable(arrival.target),
            subject.verb,
            _NOBODY if status == 401 else _user(actor),
            UNSET if request.impersonator is None else _user(request.user),
            _sources(request.peer, headers.get("X-Forwarded-For", ""), headers.get("X-Real-Ip", "")),
            _agent(headers.get("User-Agent", "")),
            subject.reference,
            _code(status) if status < 400 or entry.answer is None else _refusal(entry, subject.place),
            UNSET,
            UNSET,
            self._stamps.text(arrival.received),
            self._stamps.text(entry.moment),
            self._annotated(request),
        )
        if subject.verb in _NAMING and subject.place.plural:
            event.object_ref = _named(entry, subject.place)
        if subject.records_request:
            event.request_object = bodies.sent(request, managed_fields=subject.managed_fields)
        if subject.records_response and entry.answer is not None:
            event.response_object = bodies.answered(entry.answer, managed_fields=subject.managed_fields)
        return _encode(event) + b"\n"

    def _subject(self, actor: User, request: Request) -> _Subject | None:
        """What a request is about; None if it is not recorded."""
        watching = "watch" in request.query and is_true(request.params().get("watch"))
        key = (actor.name, actor.groups, request.method, request.path, watching)
        try:
            return self._subjects[key]
        except KeyError:
            if len(self._subjects) >= _REMEMBERED:
                self._subjects.clear()
            found = self._subjects[key] = self._judged(actor, request, watching)
            return found

    def _judged(self, actor: User, request: Request, watching: bool) -> _Subject | None:
        place, method = locate(request.path), request.method
        verb = verb_of(method, place, {"watch": "1"} if watching else {}) if place.plural else ""
        verb = verb or method.lower()
        treatment = self.policy.treatment(actor, verb, place, request.path)
        level = treatment.level
        if level is AuditLevel.NONE:
            return None
        if level > AuditLevel.METADATA and confidential.is_place(place):
            level = AuditLevel.METADATA
        return _Subject(
            place,
            verb,
            level.label,
            treatment.omit_stages,
            _reference(place, bodies.UNKNOWN) if place.plural else UNSET,
            records_request=level > AuditLevel.METADATA and place.is_resource,
            records_response=level is AuditLevel.REQUEST_RESPONSE and place.is_resource,
            managed_fields=not treatment.omit_managed_fields,
        )

    def _annotated(self, request: Request) -> Raw:
        verdict = request.verdict
        fence = request.headers.get(HEADER, "")[:_LONGEST_FENCE]
        key = fence if verdict is None else (verdict.allowed, verdict.reason, fence)
        found = self._annotations.get(key) if not request.annotations else None
        if found is None:
            notes = {INSTANCE: self._instance}
            if verdict is not None:
                decision = "allow" if verdict.allowed else "forbid"
                notes = {_DECISION: decision, _REASON: verdict.reason, **notes}
            if fence:
                notes[FENCE] = fence
            if request.annotations:
                return Raw(_encode({**notes, **request.annotations}))
            if len(self._annotations) >= _REMEMBERED:
                self._annotations.clear()
            found = self._annotations[key] = Raw(_encode(notes))
        return found


class _Stamps:
    """Time stamps in microseconds; the text of the current second is cached."""

    def __init__(self) -> None:
        self._second = -1
        self._head = ""

    def text(self, moment: float) -> str:
        second = int(moment)
        if second != self._second:
            self._second = second
            self._head = time.strftime("%Y-%m-%dT%H:%M:%S.", time.gmtime(second))
        return f"{self._head}{int((moment - second) * 1_000_000):06d}Z"


def _user(user: User) -> Raw:
    return _known_user(user.name, user.uid, user.groups, tuple(user.extra.items()))


@lru_cache(maxsize=4096)
def _known_user(
    name: str, uid: str, groups: tuple[str, ...], extra: tuple[tuple[str, tuple[str, ...]], ...]
) -> Raw:
    described = _described(name, uid, groups)
    return Raw(_encode({**described, "extra": dict(extra)} if extra else described))


def _described(name: str, uid: str, groups: tuple[str, ...]) -> dict[str, Any]:
    described: dict[str, Any] = {"username": name}
    if uid:
        described["uid"] = uid
    if groups:
        described["groups"] = groups
    return described


@lru_cache(maxsize=4096)
def _sources(peer: str, forwarded: str, real: str) -> Raw:
    """The client addresses from proxy headers, then the peer's. Invalid addresses are left out."""
    named = [*forwarded.split(","), real, peer.rpartition(":")[0].strip("[]")]
    found: list[str] = []
    for text in named:
        try:
            address = str(ip_address(text.strip()))
        except ValueError:
            continue
        if address not in found:
            found.append(address)
    return Raw(_encode(found))


@lru_cache(maxsize=1024)
def _agent(text: str) -> str:
    cut = text if len(text) <= _LONGEST_AGENT else text[:_LONGEST_AGENT] + "...TRUNCATED"
    return _readable(cut)


def _readable(text: str) -> str:
    """Without lone surrogates, which can't be encoded."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def _named(entry: RequestStage, place: RequestInfo) -> Raw:
    """The object reference of a write, which may know more than the path."""
    return _reference(place, bodies.identity(entry))


def _reference(place: RequestInfo, identity: bodies.ObjectIdentity) -> Raw:
    parts = (
        ("resource", place.plural),
        ("namespace", place.namespace or (identity.namespace if place.namespaced else "")),
        ("name", place.name or identity.name),
        ("uid", identity.uid),
        ("apiGroup", place.group),
        ("apiVersion", place.version),
        ("resourceVersion", identity.resource_version),
        ("subresource", place.subresource),
    )
    return Raw(_encode({name: _readable(value) for name, value in parts if value}))


def _refusal(entry: RequestStage, place: RequestInfo) -> Raw:
    summary = bodies.refusal(entry.answer) if entry.answer is not None else bodies.StatusSummary()
    outcome: dict[str, Any] = {"metadata": {}, "status": "Failure"}
    if summary.reason:
        outcome["reason"] = summary.reason
    if summary.message and confidential.may_record_message(place, entry.status, entry.request.body):
        outcome["message"] = summary.message
        if summary.details is not UNSET:
            outcome["details"] = summary.details
    return Raw(_encode({**outcome, "code": entry.status}))


@lru_cache(maxsize=256)
def _code(status: int) -> Raw:
    return Raw(b'{"metadata":{},"code":%d}' % status)
