"""Request failures as Kubernetes ``Status`` objects, to be raised anywhere below the HTTP edge.

Code, reason and details are protocol and stable; messages are for people.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from pilothouse.meta.fields import MOST_PROBLEMS, FieldError


class StatusCauseDetail(NamedTuple):
    """One machine-readable cause of a failure."""

    reason: str
    message: str
    field: str = ""

    def to_dict(self) -> dict[str, str]:
        body = {"reason": self.reason, "message": self.message}
        if self.field:
            body["field"] = self.field
        return body


class StatusError(Exception):
    """A failure that the client gets as a ``Status`` object with this HTTP code."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        *,
        name: str = "",
        group: str = "",
        kind: str = "",
        uid: str = "",
        causes: Sequence[StatusCauseDetail] = (),
        retry_after: int = 0,
        next_page: str = "",
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.name = name
        self.group = group
        self.kind = kind
        self.uid = uid
        self.causes = tuple(causes)
        self.retry_after = retry_after
        self.next_page = next_page

    def to_dict(self) -> dict[str, Any]:
        """The ``Status`` object."""
        details: dict[str, Any] = {}
        for field in ("name", "group", "kind", "uid"):
            if value := getattr(self, field):
                details[field] = value
        if self.causes:
            details["causes"] = [cause.to_dict() for cause in self.causes]
        if self.retry_after:
            details["retryAfterSeconds"] = self.retry_after
        body: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {"continue": self.next_page} if self.next_page else {},
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            body["reason"] = self.reason
        if details:
            body["details"] = details
        body["code"] = self.code
        return body


def qualified(resource: str, group: str) -> str:
    """``databases.nav.example.io``, or ``pods`` for the core group."""
    return f"{resource}.{group}" if group else resource


def bad_request(message: str) -> StatusError:
    return StatusError(400, "BadRequest", message)


def unauthorized() -> StatusError:
    return StatusError(401, "Unauthorized", "Unauthorized")


def forbidden(
    resource: str, group: str, name: str, detail: str, *, causes: Sequence[StatusCauseDetail] = ()
) -> StatusError:
    what = f'{qualified(resource, group)} "{name}"' if name else qualified(resource, group)
    message = f"{what} is forbidden: {detail}" if what else f"forbidden: {detail}"
    return StatusError(403, "Forbidden", message, name=name, group=group, kind=resource, causes=causes)


def not_found(resource: str, group: str, name: str) -> StatusError:
    message = f'{qualified(resource, group)} "{name}" not found'
    return StatusError(404, "NotFound", message, name=name, group=group, kind=resource)


def not_served(resource: str, group: str, subresource: str = "") -> StatusError:
    """The path is unknown, whatever the object; ``subresource`` is the one that the kind lacks."""
    message = "the server could not find the requested resource"
    if subresource:
        message += f': {qualified(resource, group)} have no subresource "{subresource}"'
    return StatusError(404, "NotFound", message, group=group, kind=resource)


def method_not_allowed(verb: str, resource: str, group: str) -> StatusError:
    message = f'{verb} is not supported on resources of kind "{qualified(resource, group)}"'
    return StatusError(405, "MethodNotAllowed", message, group=group, kind=resource)


def not_acceptable(accepted: Iterable[str]) -> StatusError:
    message = f"only the following media types are accepted: {', '.join(accepted)}"
    return StatusError(406, "NotAcceptable", message)


def already_exists(resource: str, group: str, name: str, *, terminating: bool = False) -> StatusError:
    prefix = "object is being deleted: " if terminating else ""
    message = f'{prefix}{qualified(resource, group)} "{name}" already exists'
    return StatusError(409, "AlreadyExists", message, name=name, group=group, kind=resource)


def conflict(resource: str, group: str, name: str, detail: str) -> StatusError:
    message = f'Operation cannot be fulfilled on {qualified(resource, group)} "{name}": {detail}'
    return StatusError(409, "Conflict", message, name=name, group=group, kind=resource)


MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


def apply_conflict(causes: Sequence[StatusCauseDetail]) -> StatusError:
    """Fields that other managers own; each cause has ``conflict with "manager"`` and a field."""
    if len(causes) == 1:
        detail = f"1 conflict: {causes[0].message}: {causes[0].field}"
    else:
        by_manager: dict[str, list[str]] = {}
        for cause in causes:
            by_manager.setdefault(cause.message, []).append(cause.field)
        listed = (
            "\n- ".join([f"{message.replace('conflict', 'conflicts', 1)}:", *fields])
            for message, fields in by_manager.items()
        )
        detail = f"{len(causes)} conflicts: " + "\n".join(listed)
    return StatusError(409, "Conflict", f"Apply failed with {detail}", causes=causes)


def expired(message: str, *, next_page: str = "") -> StatusError:
    return StatusError(410, "Expired", message, next_page=next_page)


def too_large(message: str) -> StatusError:
    return StatusError(413, "RequestEntityTooLarge", message)


def unsupported_media_type(accepted: Iterable[str]) -> StatusError:
    listed = ", ".join(accepted)
    message = f"the body of the request was in an unknown format - accepted media types include: {listed}"
    return StatusError(415, "UnsupportedMediaType", message)


def invalid(kind: str, group: str, name: str, problems: Sequence[FieldError]) -> StatusError:
    """422 with every problem and its path, up to ``MOST_PROBLEMS``. ``kind`` is the Kind, not the plural."""
    left_out = len(problems) > MOST_PROBLEMS
    problems = problems[:MOST_PROBLEMS]
    causes = [StatusCauseDetail(problem.reason, problem.message, problem.path) for problem in problems]
    if len(problems) == 1:
        listed = str(problems[0])
    else:
        more = ", and more than these" if left_out else ""
        listed = "[" + ", ".join(str(problem) for problem in problems) + more + "]"
    message = f'{qualified(kind, group)} "{name}" is invalid: {listed}'
    return StatusError(422, "Invalid", message, name=name, group=group, kind=kind, causes=causes)


def unprocessable(message: str) -> StatusError:
    """422 without details, for a JSON patch that can't be applied."""
    return StatusError(422, "Invalid", message)


def too_many_requests(message: str, retry_after: int = 1) -> StatusError:
    return StatusError(429, "TooManyRequests", message, retry_after=retry_after)


def internal(message: str) -> StatusError:
    return StatusError(500, "InternalError", f"Internal error occurred: {message}")


def unavailable(message: str, retry_after: int = 1) -> StatusError:
    return StatusError(503, "ServiceUnavailable", message, retry_after=retry_after)


def insufficient_storage(message: str) -> StatusError:
    """507: deleting something helps, retrying does not."""
    return StatusError(507, "InsufficientStorage", message)


def timeout(message: str, *, causes: Sequence[StatusCauseDetail] = (), retry_after: int = 0) -> StatusError:
    return StatusError(504, "Timeout", f"Timeout: {message}", causes=causes, retry_after=retry_after)


def future_revision(asked: int, current: int) -> StatusError:
    cause = StatusCauseDetail("ResourceVersionTooLarge", "Too large resource version")
    return timeout(f"Too large resource version: {asked}, current: {current}", causes=[cause], retry_after=1)
