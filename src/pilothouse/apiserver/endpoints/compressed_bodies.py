"""Bodies of answers in the form that is asked for, compressed where that pays."""

from __future__ import annotations

from typing import Final

from pilothouse.apiserver.server import compression
from pilothouse.apiserver.server.messages import Request, Response
from pilothouse.apiserver.server.negotiation import AnswerForm
from pilothouse.apiserver.storage.list_bodies import gzip_body

COMPRESS_FROM: Final = 128 * 1024
"""Bytes; for smaller bodies compression costs more than it saves."""
GZIPPED: Final = (("Content-Encoding", "gzip"), ("Vary", "Accept-Encoding"))


async def respond_in_form(request: Request, form: AnswerForm, body: bytes) -> Response:
    body = form.write(body)
    if len(body) >= COMPRESS_FROM and compression.wanted(request.headers.get("Accept-Encoding", "")):
        return Response(200, await gzip_body(body), form.media, GZIPPED)
    return Response(200, body, form.media)
