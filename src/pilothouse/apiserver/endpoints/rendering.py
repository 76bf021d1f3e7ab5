"""Objects as responses, in the negotiated form."""

from __future__ import annotations

import msgspec

from pilothouse.apiserver.discovery import tables
from pilothouse.apiserver.discovery.catalog import ServedVersion
from pilothouse.apiserver.server.messages import Request, Response
from pilothouse.apiserver.server.negotiation import (
    BARE,
    PARTIAL,
    TABLE,
    AnswerEndpoint,
    AnswerForm,
    negotiate,
)
from pilothouse.apiserver.storage.items import Item
from pilothouse.base.clock import Clock, SystemClock
from pilothouse.meta.kind import Kind


def render(
    request: Request,
    served: ServedVersion,
    value: bytes,
    revision: int,
    status: int = 200,
    *,
    clock: Clock = SystemClock(),
) -> Response:
    """An object's stored value as an answer in the version of ``served``; revision 0 leaves it out."""
    form = negotiate(request, AnswerEndpoint.OBJECT)
    prefix = served.kind.prefix
    if revision and value.startswith(prefix):
        body = b'%b"resourceVersion":"%d",%b' % (prefix, revision, value[len(prefix) :])
    else:
        item = Item("", revision, value)
        body = item.served(served) if revision else item.form(served)
    if form is BARE:
        return Response(status, body)
    return Response(
        status, form.write(transformed(request, served.kind, form, body, clock.now())), form.media
    )


def transformed(request: Request, kind: Kind, form: AnswerForm, body: bytes, now: float) -> bytes:
    """A served object as the form's transform has it."""
    if form.transform == TABLE:
        include = tables.included(request.params())
        return tables.table_of_object(kind, msgspec.json.decode(body), include, now)
    return tables.partial(body) if form.transform == PARTIAL else body
