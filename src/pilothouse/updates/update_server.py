"""Serves a folder of channels to clusters and machines.

    server = UpdateServer(folder, clock, token="…")
    async with serving_updates(server, "127.0.0.1", 8080) as port: ...

It answers GET and HEAD, with ranges: files of the folder; ``/CHANNEL`` in the older form, made from the
channel's index; ``/clusters``, which clusters asked and what they run, if there is a token. With a token,
every request has to carry it. Not served are names that begin with a dot, files that other users may not read
(private keys have the mode 0600), and what a link leads to outside of the folder.
"""

from __future__ import annotations

import hmac
import logging
import ssl
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final
from urllib.parse import quote

import msgspec
from aiohttp import web
from aiohttp.abc import AbstractStreamWriter

from pilothouse.base.clock import Clock
from pilothouse.updates.channel_index import BadIndex, ChannelOffer, parse_offer
from pilothouse.updates.cluster_registry import ClusterRegistry
from pilothouse.updates.publishing import INDEX, METADATA

CLUSTERS: Final = "/clusters"
_YAML: Final = "application/yaml"

log = logging.getLogger(__name__)


class UpdateServer:
    """Answers requests for the files of a folder."""

    def __init__(self, folder: Path, clock: Clock, *, token: str = "") -> None:
        self._folder = folder.resolve()
        self._token = token.encode()
        self.clusters = ClusterRegistry(clock)

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.method not in ("GET", "HEAD"):
            return _text(405, "only GET and HEAD are supported", {"Allow": "GET, HEAD"})
        if not self._is_allowed(request):
            return _text(401, "send the token: Authorization: Bearer TOKEN", {"WWW-Authenticate": "Bearer"})
        if request.path == CLUSTERS and self._token:
            body = msgspec.json.encode({"clusters": self.clusters.clusters()})
            return web.Response(body=body, content_type="application/json")
        found = self._find(request.path)
        if found is None:
            return _text(404, f"{request.path} is not here")
        place = str(found.relative_to(self._folder))
        if channel := _channel(place):
            self.clusters.note(channel, request.headers, request.query)
            if found.name == INDEX and not request.path.endswith(f"/{INDEX}"):
                return self._older_form(found, channel, request)
        return _FileAsItIs(found, headers={"Content-Type": _content_type(found)})

    def _is_allowed(self, request: web.BaseRequest) -> bool:
        if not self._token:
            return True
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        given = token.strip().encode("utf-8", "surrogateescape")
        return scheme.lower() == "bearer" and hmac.compare_digest(given, self._token)

    def _find(self, path: str) -> Path | None:
        """The file that a path names, or the index of the channel that it names."""
        steps = [step for step in path.split("/") if step]
        if not steps or any(step.startswith(".") or "\0" in step for step in steps):
            return None
        try:
            place = self._folder.joinpath(*steps).resolve()
            if not place.is_relative_to(self._folder):
                return None
            if place.is_dir() and not path.endswith("/"):
                place = place / INDEX
            mode = place.stat().st_mode
            return place if stat.S_ISREG(mode) and mode & stat.S_IROTH else None
        except (OSError, ValueError):
            return None

    def _older_form(self, index: Path, channel: str, request: web.BaseRequest) -> web.StreamResponse:
        base = f"{request.scheme}://{request.host}/{quote(channel, safe='/')}/"
        try:
            offer = parse_offer(index.read_bytes(), base)
        except (BadIndex, OSError) as problem:
            log.error("%s: %s", index, problem)
            return _text(500, "the index of this channel can't be read")
        return web.Response(body=_older_yaml(offer), headers={"Content-Type": _YAML})


class _FileAsItIs(web.FileResponse):
    """A file, and never one beside it with ``.gz`` or ``.br`` at the end: that was not looked at."""

    async def prepare(self, request: web.BaseRequest) -> AbstractStreamWriter | None:
        headers = request.headers.copy()
        headers.popall("Accept-Encoding", None)
        return await super().prepare(request.clone(headers=headers))


@asynccontextmanager
async def serving_updates(
    server: UpdateServer, host: str, port: int, tls: ssl.SSLContext | None = None
) -> AsyncIterator[int]:
    """Serve within the context; yields the port, a free one for 0. Raises ``OSError``."""
    runner = web.ServerRunner(web.Server(server.answer))
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port, ssl_context=tls).start()
        bound: int = runner.addresses[0][1]
        yield bound
    finally:
        await runner.cleanup()


def _channel(place: str) -> str:
    """The channel that is read by this file first; empty for other files."""
    for first in (f"/{INDEX}", f"/{METADATA}/timestamp.json"):
        if place.endswith(first):
            return place.removesuffix(first)
    return ""


def _older_yaml(offer: ChannelOffer) -> bytes:
    """JSON is YAML."""
    urls = {
        "k0s": {one.platform: one.k0s.url for one in offer.downloads if one.k0s is not None},
        "airgap": {one.platform: one.airgap.url for one in offer.downloads if one.airgap is not None},
    }
    return msgspec.json.encode({"version": offer.version, "downloadURLs": urls})


def _content_type(path: Path) -> str:
    kinds = {".yaml": _YAML, ".json": "application/json", ".minisig": "text/plain; charset=utf-8"}
    return kinds.get(path.suffix, "application/octet-stream")


def _text(status: int, text: str, headers: dict[str, str] | None = None) -> web.Response:
    return web.Response(status=status, text=f"{text}\n", headers=headers)
