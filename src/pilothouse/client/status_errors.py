"""A server's refusals, read back into the errors that they were: code, reason, details, causes."""

from __future__ import annotations

import msgspec

from pilothouse.meta.errors import StatusCauseDetail, StatusError


class _Cause(msgspec.Struct):
    reason: str = ""
    message: str = ""
    field: str = ""


class _Details(msgspec.Struct, rename="camel"):
    name: str = ""
    group: str = ""
    kind: str = ""
    uid: str = ""
    causes: list[_Cause] | None = None
    retry_after_seconds: int = 0


class _Listed(msgspec.Struct):
    next: str = msgspec.field(name="continue", default="")


class StatusBody(msgspec.Struct):
    kind: str = ""
    status: str = ""
    message: str = ""
    reason: str = ""
    code: int = 0
    details: _Details | None = None
    metadata: _Listed | None = None


_status = msgspec.json.Decoder(StatusBody)


def error_of(code: int, body: bytes, *, retry_after: str | None = None) -> StatusError:
    """The error in an answer; an answer that is no Status (a proxy's, say) is quoted."""
    try:
        status = _status.decode(body)
    except msgspec.DecodeError:
        status = StatusBody()
    seconds = int(retry_after) if retry_after and retry_after.isdecimal() else 0
    if status.kind != "Status":
        text = body[:200].decode(errors="replace").strip()
        return StatusError(code, "", f"the server answers {code}: {text}", retry_after=seconds)
    details = status.details or _Details()
    return StatusError(
        status.code or code,
        status.reason,
        status.message,
        name=details.name,
        group=details.group,
        kind=details.kind,
        uid=details.uid,
        causes=[
            StatusCauseDetail(cause.reason, cause.message, cause.field) for cause in details.causes or ()
        ],
        retry_after=seconds or details.retry_after_seconds,
        next_page=status.metadata.next if status.metadata else "",
    )
