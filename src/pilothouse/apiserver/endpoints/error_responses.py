"""Errors as responses: a Status, and Retry-After where retrying helps."""

from __future__ import annotations

from pilothouse.apiserver.server.messages import Response
from pilothouse.apiserver.storage.codec import dump
from pilothouse.meta.errors import StatusError


def refusal(error: StatusError) -> Response:
    headers = (("Retry-After", str(error.retry_after)),) if error.retry_after else ()
    return Response(error.code, dump(error.to_dict()), headers=headers)
