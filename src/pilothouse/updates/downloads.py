"""Downloads payloads over http and https: resumed, retried, limited and verified.

    downloads = Downloads(DownloadSettings(trust=PayloadTrust("signed", keys)), SystemClock())
    fetched = await downloads.fetch(payload, Path("/usr/local/bin/.k0s.update"))   # DownloadFailed says why

What has come so far is in ``.NAME.part``, beside the target, with the server's ETag: the next try, or the
next process, asks for the rest, and starts anew if the server has another file meanwhile. The target appears
when all of it is there and verified. Tokens are sent to their host only, over https only; a redirect from
https to http is not followed.
"""

from __future__ import annotations

import asyncio
import errno
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from email.message import Message
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from pilothouse.api.k0s.payloads import DownloadFailed, FetchedPayload, Payload
from pilothouse.base.backoff import Backoff
from pilothouse.base.clock import Clock
from pilothouse.client.access import AccessError
from pilothouse.client.transport import NotSent, ResponseStreamReader, TransportError
from pilothouse.updates.download_requests import DownloadHosts, NotFollowed, open_url
from pilothouse.updates.partial_download import PartialDownload
from pilothouse.updates.payload_trust import SIGNATURE_LIMIT, PayloadTrust, signature_url

GIB: Final = 1 << 30
_BLOCK: Final = 1 << 20
_TRIES: Final = 5
_BACKOFF: Final = Backoff(first=1.0, factor=2.0, longest=30.0)
_RETRIED: Final = frozenset({408, 425, 429, 500, 502, 503, 504})
_HASH: Final = re.compile(r"[0-9a-fA-F]{64}")
_CREDENTIALS: Final = re.compile(r"//[^/?#]*@")
_LONGEST_SHOWN: Final = 200
_RANGE: Final = re.compile(r"bytes (\d+)-(\d+)/(\d+|\*)")


@dataclass(frozen=True, kw_only=True)
class DownloadSettings:
    trust: PayloadTrust = field(default_factory=PayloadTrust)
    hosts: DownloadHosts = field(default_factory=DownloadHosts)
    most_bytes: int = 4 * GIB
    stall: float = 60.0
    """Seconds without data after which a try is given up."""
    total: float = 6 * 3600.0
    """Seconds for all tries together."""
    tries: int = _TRIES
    """How many tries in a row may bring nothing new."""
    backoff: Backoff = _BACKOFF


class _TryFailed(Exception):
    """This try has failed; another may not."""


class Downloads:
    def __init__(self, settings: DownloadSettings, clock: Clock) -> None:
        self._settings = settings
        self._hosts = settings.hosts
        self._stall = settings.stall
        self._clock = clock

    async def fetch(self, payload: Payload, into: Path) -> FetchedPayload:
        """Download a payload to a file, and verify it. Raises DownloadFailed."""
        if payload.sha256 and not _HASH.fullmatch(payload.sha256):
            raise DownloadFailed(
                f"sha256 {payload.sha256!r} is not a SHA-256: expected 64 hexadecimal digits"
            )
        self._settings.trust.check_payload(payload)
        part = PartialDownload(into)
        try:
            async with asyncio.timeout(self._settings.total):
                return await self._fetch(payload, part, into)
        except TimeoutError:
            part.discard()
            raise DownloadFailed(
                f"{payload.url} was not downloaded within {self._settings.total:g} s"
            ) from None
        except OSError as problem:
            part.discard()
            raise DownloadFailed(_disk_problem(into, problem)) from None
        except ValueError as problem:
            # Of what a server sent, such as a name that can't be looked up or decoded.
            part.discard()
            raise DownloadFailed(f"{payload.url}: {problem}") from None
        except DownloadFailed:
            part.discard()
            raise

    def discard(self, into: Path) -> None:
        """Remove what has come so far of a file."""
        PartialDownload(into).discard()

    async def _fetch(self, payload: Payload, part: PartialDownload, into: Path) -> FetchedPayload:
        resumed = part.size > 0
        name = await self._download(payload.url, part)
        digest = await part.digest()
        if payload.sha256 and digest != payload.sha256.lower():
            if resumed or part.was_resumed:
                # Two files may have been mixed.
                part.discard()
                name = await self._download(payload.url, part)
                digest = await part.digest()
            if digest != payload.sha256.lower():
                raise DownloadFailed(
                    f"{payload.url} has the SHA-256 {digest}, not {payload.sha256.lower()} as the plan says"
                )
        if self._settings.trust.needs_signature:
            signature = await self._small(signature_url(payload.url))
            await asyncio.to_thread(self._settings.trust.verify, part.path, signature, payload)
        await part.finish(into)
        if self._settings.trust.needs_signature:
            # No signature covers the name that the server gave.
            name = ""
        return FetchedPayload(digest, name or last_segment(payload.url))

    async def _download(self, url: str, part: PartialDownload) -> str:
        """All of it; returns the name that the server gave. Raises DownloadFailed and OSError."""
        failures, most = 0, part.size
        while True:
            try:
                return await self._try(url, part)
            except _TryFailed as problem:
                failures = 1 if part.size > most else failures + 1
                most = max(most, part.size)
                if failures >= self._settings.tries:
                    raise DownloadFailed(f"{url}: {problem} (tried {failures} times)") from None
            await asyncio.sleep(self._settings.backoff.after(failures))

    async def _try(self, url: str, part: PartialDownload) -> str:
        offset = part.resumable(url)
        headers = {"Accept-Encoding": "identity"}
        if offset:
            headers |= {"Range": f"bytes={offset}-", "If-Range": part.etag}
        try:
            async with open_url(url, headers, self._hosts, self._clock, self._stall) as answer:
                begins = self._check(url, answer, offset, part)
                etag = answer.headers.get("ETag", "")
                await part.open(url, "" if etag.startswith("W/") else etag, begins)
                await self._receive(url, answer, part)
                return disposition_name(answer.headers.get("Content-Disposition", ""))
        except (NotFollowed, AccessError, ValueError) as problem:
            # ValueError: of a host name that can't be looked up.
            raise DownloadFailed(f"{_CREDENTIALS.sub('//', url)}: {problem}") from None
        except NotSent as problem:
            raise _TryFailed(str(problem)) from None
        except TransportError as problem:
            raise _TryFailed(f"it was cut off after {part.size} bytes: {problem}") from None
        except TimeoutError:
            raise _TryFailed(f"nothing came for {self._stall:g} s, after {part.size} bytes") from None
        finally:
            await part.close()

    def _check(self, url: str, answer: ResponseStreamReader, offset: int, part: PartialDownload) -> int:
        """Where what the server sends begins."""
        if answer.status == 206 and offset:
            found = _RANGE.fullmatch(answer.headers.get("Content-Range", ""))
            if found is None or int(found[1]) != offset:
                part.discard()
                raise _TryFailed("the server sent another part than was asked for")
            return offset
        if answer.status == 416 and offset:
            part.discard()
            raise _TryFailed("the server has less than was downloaded before")
        if answer.status != 200:
            message = f"the server answers with status {answer.status}"
            if answer.status in _RETRIED:
                raise _TryFailed(message)
            raise DownloadFailed(f"{url}: {message}")
        self._check_size(url, int(answer.headers.get("Content-Length") or 0))
        return 0

    async def _receive(self, url: str, answer: ResponseStreamReader, part: PartialDownload) -> None:
        block = bytearray()
        try:
            async for data in _chunks(answer, self._stall):
                block += data
                self._check_size(url, part.size + len(block))
                if len(block) >= _BLOCK:
                    full, block = bytes(block), bytearray()
                    await part.write(full)
        finally:
            if block:
                await part.write(bytes(block))

    def _check_size(self, url: str, size: int) -> None:
        if size > self._settings.most_bytes:
            raise DownloadFailed(f"{url} has more than {self._settings.most_bytes} bytes, the most allowed")

    async def _small(self, url: str) -> str:
        """A small text. Raises DownloadFailed."""
        failures = 0
        while True:
            try:
                async with open_url(url, {}, self._hosts, self._clock, self._stall) as answer:
                    async with asyncio.timeout(self._stall):
                        body = await answer.read(SIGNATURE_LIMIT)
                    if answer.status == 200:
                        return body.decode(errors="replace")
                    problem = f"the server answers with status {answer.status}"
                    final = answer.status not in _RETRIED
            except (NotFollowed, AccessError, ValueError) as refusal:
                problem, final = str(refusal), True
            except (TransportError, TimeoutError) as failure:
                problem, final = str(failure) or "nothing came", False
            failures += 1
            if final or failures >= self._settings.tries:
                raise DownloadFailed(f"there is no signature at {url}: {problem}")
            await asyncio.sleep(self._settings.backoff.after(failures))


async def _chunks(answer: ResponseStreamReader, stall: float) -> AsyncIterator[bytes]:
    """What comes. Raises TimeoutError if nothing comes for so many seconds."""
    chunks = aiter(answer.chunks)
    while True:
        try:
            async with asyncio.timeout(stall):
                data = await anext(chunks)
        except StopAsyncIteration:
            return
        yield data


def last_segment(url: str) -> str:
    """The file name in a URL.

    >>> last_segment("https://dl.example/a/bundle%2B1.tar?x=1")
    'bundle+1.tar'
    """
    return unquote(urlsplit(url).path.rpartition("/")[2])


def disposition_name(header: str) -> str:
    """The file name of a Content-Disposition; empty if it has none. Raises ValueError.

    >>> disposition_name('attachment; filename="bundle.tar"')
    'bundle.tar'
    """
    message = Message()
    message["Content-Disposition"] = header.replace("\r", "").replace("\n", "")
    try:
        return message.get_filename("") if header else ""
    except TypeError:
        # The parser's, of parts of which some have numbers.
        raise ValueError(f"the Content-Disposition {header[:_LONGEST_SHOWN]!r} has no file name") from None


def _disk_problem(into: Path, problem: OSError) -> str:
    if problem.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"the disk of {into.parent} is full"
    return f"{problem.filename or into}: {problem.strerror or problem}"
