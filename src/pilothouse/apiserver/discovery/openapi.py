"""The OpenAPI documents: v3 per group and version with an index, and v2 of everything.

    openapi = OpenAPIDocuments(catalog)
    await openapi.answer(Request("GET", "/openapi/v3"))    # None for a path that is not OpenAPI's

Documents are built on first use, and again when their kinds change. The index has the hash of each: requests
with the current hash are cacheable forever, those with an old one are redirected. v2 is also served as
protobuf, which kubectl up to 1.28 requires; it is built in a thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from email.utils import formatdate
from functools import cached_property
from hashlib import sha256
from typing import Any

import msgspec

from pilothouse.apiserver.discovery.catalog import KindCatalog
from pilothouse.apiserver.server.compression import deflate, gzip_of, wanted
from pilothouse.apiserver.server.messages import JSON, Request, Response
from pilothouse.apiserver.server.negotiation import clauses
from pilothouse.apiserver.storage import codec
from pilothouse.base.clock import Clock, SystemClock
from pilothouse.meta import errors
from pilothouse.meta.kind import Kind
from pilothouse.meta.openapi.v2 import openapi_v2
from pilothouse.meta.openapi.v2_protobuf import openapi_protobuf
from pilothouse.meta.openapi.v3 import openapi_v3, root_path

_ROOT, _INDEX, _V2 = "/openapi/", "/openapi/v3", "/openapi/v2"
_YEAR = 365 * 24 * 3600
PROTOBUF = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
_WRITERS: Mapping[str, Callable[[Any], bytes]] = {JSON: codec.dump, PROTOBUF: openapi_protobuf}
_JSON = dict.fromkeys((JSON, "application/*", "*/*"), JSON)
# Clients write an @ where the answer's own type has a dot, since that is no character for a media type.
_JSON_OR_PROTOBUF = _JSON | dict.fromkeys((PROTOBUF, PROTOBUF.replace("v2.v1", "v2@v1")), PROTOBUF)


class OpenAPIDocument:
    """One document, also kept compressed: it is large and every kubectl requests it."""

    def __init__(self, content: Any, media: str = JSON) -> None:
        self.media = media
        self.body = _WRITERS[media](content)
        self.hash = sha256(self.body).hexdigest().upper()

    @cached_property
    def packed(self) -> bytes:
        return gzip_of([deflate(self.body)])


class OpenAPIDocuments:
    def __init__(self, catalog: KindCatalog, clock: Clock = SystemClock()) -> None:
        self._catalog = catalog
        self._clock = clock
        self._generation = -1
        self._made: dict[str, tuple[tuple[Kind, ...], OpenAPIDocument]] = {}
        self._joined: dict[str, OpenAPIDocument] = {}
        self._joining = asyncio.Lock()
        self._index: OpenAPIDocument | None = None

    async def answer(self, request: Request) -> Response | None:
        path = request.path.rstrip("/")
        if not path.startswith(_ROOT):
            return None
        if request.method not in ("GET", "HEAD"):
            raise errors.StatusError(405, "MethodNotAllowed", f"{request.method} is not supported on {path}")
        self._follow_catalog()
        if path == _V2:
            return _answer(request, await self._v2(_media(request, _JSON_OR_PROTOBUF)))
        if path == _INDEX:
            _media(request, _JSON)
            self._index = self._index or OpenAPIDocument({"paths": self._places()})
            return _answer(request, self._index)
        kinds = self._kinds().get(path.removeprefix(f"{_INDEX}/"))
        if kinds is None or not path.startswith(f"{_INDEX}/"):
            return None
        _media(request, _JSON)
        return self._v3(request, path, self._document(kinds))

    def _v3(self, request: Request, path: str, document: OpenAPIDocument) -> Response:
        known = request.params().get("hash", "")
        if not known:
            return _answer(request, document)
        if known != document.hash:
            return Response(301, b"", JSON, (("Location", f"{path}?hash={document.hash}"),))
        forever = (
            ("Cache-Control", "public, immutable"),
            ("Expires", formatdate(self._clock.now() + _YEAR, usegmt=True)),
        )
        return _answer(request, document, forever)

    async def _v2(self, media: str) -> OpenAPIDocument:
        async with self._joining:  # Concurrent requests wait for the first one's result.
            self._follow_catalog()
            known = self._joined.get(media)
            if known is None:
                generation = self._generation
                bodies = []
                for kinds in self._kinds().values():
                    bodies.append(self._document(kinds).body)
                    await asyncio.sleep(0)  # Each takes milliseconds: other requests get their turn between.
                known = await asyncio.to_thread(_join, bodies, media)
                if generation == self._catalog.generation:
                    self._joined[media] = known
            return known

    def _places(self) -> dict[str, Any]:
        return {
            place: {"serverRelativeURL": f"{_INDEX}/{place}?hash={self._document(kinds).hash}"}
            for place, kinds in sorted(self._kinds().items())
        }

    def _kinds(self) -> dict[str, tuple[Kind, ...]]:
        """The kinds of each group and version, by ``apis/apps/v1``."""
        found = {}
        for group, versions in self._catalog.groups().items():
            for version in versions:
                kinds = tuple(self._catalog.kinds(group, version))
                found[root_path(kinds[0]).lstrip("/")] = kinds
        return found

    def _document(self, kinds: tuple[Kind, ...]) -> OpenAPIDocument:
        place = root_path(kinds[0])
        known = self._made.get(place)
        if known is None or known[0] != kinds:
            types = {
                (kind.group, kind.version, kind.name): kind.schema
                for resource in self._catalog
                for kind in resource.kinds
            }
            known = self._made[place] = (kinds, OpenAPIDocument(openapi_v3(kinds, types)))
        return known[1]

    def _follow_catalog(self) -> None:
        if self._generation == self._catalog.generation:
            return
        self._generation = self._catalog.generation
        self._joined = {}
        self._index = None
        present = {f"/{place}" for place in self._kinds()}
        self._made = {place: made for place, made in self._made.items() if place in present}


def _join(bodies: list[bytes], media: str) -> OpenAPIDocument:
    return OpenAPIDocument(openapi_v2(msgspec.json.decode(body) for body in bodies), media)


def _media(request: Request, known: Mapping[str, str]) -> str:
    """The client's preferred media type among those known, or 406."""
    accept = request.headers.get("Accept", "")
    if not accept:
        return JSON
    for clause in clauses(accept):
        if clause.media in known:
            return known[clause.media]
    raise errors.not_acceptable(sorted(set(known.values())))


def _answer(request: Request, document: OpenAPIDocument, more: tuple[tuple[str, str], ...] = ()) -> Response:
    tag = f'"{document.hash}"'
    headers = (("ETag", tag), ("Vary", "Accept-Encoding, Accept"), *more)
    if tag in request.headers.get("If-None-Match", ""):
        return Response(304, b"", document.media, headers)
    if wanted(request.headers.get("Accept-Encoding", "")) and len(document.packed) < len(document.body):
        return Response(200, document.packed, document.media, (*headers, ("Content-Encoding", "gzip")))
    return Response(200, document.body, document.media, headers)
