"""The status of a gRPC call, from headers and trailers.

    outcome(decoded(block))         # GrpcStatus(http=200, status=0, message="")
    failure(outcome)                # CallFailed("UNAVAILABLE", "etcdserver: no leader")

Without a ``grpc-status`` the HTTP status decides.
"""

from __future__ import annotations

from urllib.parse import unquote

import msgspec

from pilothouse.store.etcd import http2_frames
from pilothouse.store.etcd.hpack import Fields

STATUS = (
    *("OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS"),
    *("PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE"),
    *("UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED"),
)
"""gRPC's codes by number."""


class CallFailed(Exception):
    """A call without an answer, or with an error."""

    def __init__(self, code: str, details: str, *, arrived: bool = True) -> None:
        super().__init__(details or code)
        self.code = code
        self.details = details or code
        self.arrived = arrived
        """False if it is certain that no server has begun to carry it out."""


class GrpcStatus(msgspec.Struct, frozen=True):
    """A header block of an answer, as far as it matters."""

    http: int | None
    """None in trailers."""
    status: int | None
    """gRPC's code, in the block that ends the answer."""
    message: str


def outcome(fields: Fields) -> GrpcStatus:
    """Raises ``ValueError`` for invalid numbers."""
    found = dict(fields)
    http, status = found.get(":status"), found.get("grpc-status")
    return GrpcStatus(
        http=None if http is None else int(http),
        status=None if status is None else int(status),
        message=unquote(found.get("grpc-message", "")),
    )


def failure(end: GrpcStatus) -> CallFailed:
    """The error of an answer that ends like this."""
    if end.status is not None:
        code = STATUS[end.status] if 0 < end.status < len(STATUS) else "UNKNOWN"
        return CallFailed(code, end.message)
    if end.http not in (None, 200):
        code = "UNAVAILABLE" if end.http in (429, 502, 503, 504) else "UNKNOWN"
        return CallFailed(code, f"HTTP status {end.http} in place of a gRPC answer")
    return CallFailed("INTERNAL", "an answer that ends without a gRPC status")


def reset(code: int) -> CallFailed:
    """The error of a call whose stream was reset."""
    details = f"the stream was reset: {http2_frames.error_name(code)}"
    if code == http2_frames.REFUSED_STREAM:
        return CallFailed("UNAVAILABLE", details, arrived=False)
    return CallFailed("CANCELLED" if code == http2_frames.CANCEL else "INTERNAL", details)
