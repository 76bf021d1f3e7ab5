"""The query of a request for audit records.

    AuditQuery.parse({"user": "alice", "object": "pods/web-0", "since": "1h"}, resolve, now)

Records are our own compact lines, so most that don't match are rejected without decoding.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from pilothouse.apiserver.server.messages import is_true
from pilothouse.base.duration import DurationError, parse_duration
from pilothouse.base.rfc3339 import TimeError, format_micro_time, parse_time
from pilothouse.meta.errors import StatusError, bad_request

DEFAULT_LIMIT = 1000
MOST = 100_000
_PARAMETERS = ("user", "verb", "object", "namespace", "since", "limit", "follow", "local")

Resolve = Callable[[str], frozenset[tuple[str, str]]]
"""The groups and plurals of the resources that go by a name."""


class _User(msgspec.Struct, frozen=True):
    username: str = ""


class _Reference(msgspec.Struct, frozen=True):
    resource: str = ""
    namespace: str = ""
    name: str = ""
    api_group: str = msgspec.field(name="apiGroup", default="")


_NO_USER = _User()
_NO_REFERENCE = _Reference()


class QueriedFields(msgspec.Struct, frozen=True, rename="camel"):
    """The fields of a record that queries match."""

    stage_timestamp: str
    verb: str = ""
    user: _User = _NO_USER
    impersonated_user: _User = _NO_USER
    object_ref: _Reference = _NO_REFERENCE


_fields = msgspec.json.Decoder(QueriedFields)


class AuditQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which records, and how many: the newest ``limit``."""

    user: str = ""
    verb: str = ""
    namespace: str = ""
    resources: frozenset[tuple[str, str]] = frozenset()
    """Groups and plurals; a group of ``*`` is any."""
    name: str = ""
    since: str = ""
    """As records write it, so that texts compare like times."""
    limit: int = DEFAULT_LIMIT
    follow: bool = False
    local: bool = False
    """Of this instance alone."""

    @classmethod
    def parse(cls, params: Mapping[str, str], resolve: Resolve, now: float) -> AuditQuery:
        """Raises 400 for invalid parameters."""
        if unknown := sorted(set(params) - set(_PARAMETERS)):
            raise bad_request(f"unknown parameter {unknown[0]!r}; known are {', '.join(_PARAMETERS)}")
        kind, _, name = params.get("object", "").partition("/")
        return cls(
            user=params.get("user", ""),
            verb=params.get("verb", "").lower(),
            namespace=params.get("namespace", ""),
            resources=resolve(kind) or frozenset({("*", kind.lower())}) if kind else frozenset(),
            name=name,
            since=_moment(params["since"], now) if params.get("since") else "",
            limit=_limit(params["limit"]) if params.get("limit") else DEFAULT_LIMIT,
            follow=is_true(params.get("follow")),
            local=is_true(params.get("local")),
        )

    def matches(self, line: bytes) -> bool:
        fields = self.read(line)
        return fields is not None and fields.stage_timestamp >= self.since

    def read(self, line: bytes) -> QueriedFields | None:
        """A line that matches, whatever its time; None for others and for what is no record."""
        if not all(needle in line for needle in self._needles()):
            return None
        fields = read_fields(line)
        return fields if fields is not None and self._fits(fields) else None

    def _fits(self, fields: QueriedFields) -> bool:
        reference = fields.object_ref
        if self.user and self.user not in (fields.user.username, fields.impersonated_user.username):
            return False
        if self.verb and fields.verb != self.verb:
            return False
        if self.namespace and reference.namespace != self.namespace:
            return False
        if self.name and reference.name != self.name:
            return False
        kinds = {(reference.api_group, reference.resource), ("*", reference.resource)}
        return not self.resources or not kinds.isdisjoint(self.resources)

    def _needles(self) -> list[bytes]:
        wanted = (self.user, self.verb, self.namespace, self.name)
        return [msgspec.json.encode(each) for each in wanted if each]


def read_fields(line: bytes) -> QueriedFields | None:
    """The fields of a line; None if it is no record, such as a truncated one."""
    try:
        return _fields.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def stamp_of(line: bytes) -> str:
    """When a record's stage was reached; empty for what is no record."""
    fields = read_fields(line)
    return fields.stage_timestamp if fields else ""


def _moment(text: str, now: float) -> str:
    try:
        return format_micro_time(parse_time(text))
    except TimeError:
        pass
    try:
        return format_micro_time(now - parse_duration(text))
    except (DurationError, OverflowError, OSError, ValueError):
        raise _wrong(
            "since", text, "a duration such as 90s or 1h, or a time such as 2006-01-02T15:04:05Z"
        ) from None


def _limit(text: str) -> int:
    if not (text.isdecimal() and len(text) <= 9 and 1 <= int(text) <= MOST):
        raise _wrong("limit", text, f"a number from 1 to {MOST}")
    return int(text)


def _wrong(name: str, text: str, right: str) -> StatusError:
    return bad_request(f"{name}: {text!r} is not {right}")
