"""Handlers of hooks and probes: run a program inside a container, ask over HTTP, open a connection, or sleep.

    outcome = await run_handler(handler, target, timeout=1.0)
    outcome.well, outcome.output

A program is ended when its time is up; a connection or an answer is not waited for any longer. Whatever goes wrong is an outcome that is
not well: the caller has a container to stop, or to ask again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from pilothouse.api.objects import Tree
from pilothouse.node.containers.http_probe import probe_http
from pilothouse.node.containers.probe_connection import DialError, ResultUnknown, connected
from pilothouse.node.interfaces import RunningContainer
from pilothouse.supervise.launch_spec import LaunchError

MOST_OUTPUT: Final = 10 * 1024
_REST: Final = 0.5
"""Seconds for the last output of a program that has ended."""

log = logging.getLogger(__name__)


class HandlerResult(msgspec.Struct, frozen=True):
    """What came of a handler."""

    well: bool
    output: str = ""
    code: int = 0
    """With which a program ended."""
    asked: bool = True
    """Whether it could be asked at all. A program that is not there says nothing about the container."""

    @property
    def why(self) -> str:
        """Why it is not well; of a program both its code and what it said."""
        told = [f"exit code {self.code}"] if self.code else []
        return ": ".join([*told, *([self.output] if self.output else [])]) or "it failed"


class HandlerTarget(msgspec.Struct, frozen=True):
    """Whom a handler is about."""

    container: RunningContainer
    spec: Tree
    address: str
    """Of the pod."""


async def run_handler(handler: Mapping[str, Any], target: HandlerTarget, timeout: float) -> HandlerResult:
    """Carry it out, for so many seconds at most."""
    try:
        async with asyncio.timeout(timeout) as limit:
            if (command := handler.get("exec")) is not None:
                return await _run(command.get("command") or (), target)
            if (http := handler.get("httpGet")) is not None:
                host, port = http.get("host") or target.address, port_of(http["port"], target.spec)
                return HandlerResult(*await probe_http(http, host, port))
            if (tcp := handler.get("tcpSocket")) is not None:
                return await _connect(tcp.get("host") or target.address, port_of(tcp["port"], target.spec))
            if (pause := handler.get("sleep")) is not None:
                await asyncio.sleep(float(pause.get("seconds") or 0))
                return HandlerResult(True)
    except TimeoutError as problem:
        if not limit.expired():
            return _unforeseen(problem)
        return HandlerResult(False, f"timed out after {timeout:g}s")
    except (PortUnknown, ResultUnknown) as problem:
        return HandlerResult(False, str(problem), asked=False)
    except Exception as problem:  # noqa: BLE001 - it is logged, and what it is matters to none of the callers
        return _unforeseen(problem)
    return HandlerResult(False, f"no handler that is known: {sorted(handler)}")


def _unforeseen(problem: Exception) -> HandlerResult:
    """That we could not ask says nothing about the container."""
    said = f"{type(problem).__name__}: {problem}"
    log.error("a probe or hook could not be carried out: %s", said, exc_info=log.isEnabledFor(logging.DEBUG))
    return HandlerResult(False, said, asked=False)


class PortUnknown(ValueError):
    """A port is named that the container does not have."""


def port_of(port: int | str, container: Tree) -> int:
    """A number, or the number of a container's port of that name."""
    if isinstance(port, int):
        return port
    if str(port).isdigit():
        return int(port)
    for each in container.get("ports") or ():
        if each.get("name") == port:
            return int(each["containerPort"])
    raise PortUnknown(f'container "{container["name"]}" has no port named "{port}"')


async def _run(argv: Sequence[str], target: HandlerTarget) -> HandlerResult:
    try:
        entered = await target.container.enter(tuple(argv))
    except LaunchError as problem:
        return HandlerResult(False, problem.message, asked=False)
    try:
        streams = [stream for stream in (entered.stdout, entered.stderr) if stream is not None]
        reading = asyncio.gather(*(_head(stream) for stream in streams))
        try:
            code = await entered.exited()
            # What it left running in the background may hold the streams open for ever.
            await asyncio.wait((reading,), timeout=_REST)
            texts = reading.result() if reading.done() else []
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
    finally:
        await entered.close()
    output = b"".join(texts)[:MOST_OUTPUT].decode(errors="replace").strip()
    return HandlerResult(code == 0, output, code)


async def _head(stream: asyncio.StreamReader) -> bytes:
    """The beginning of what is written; the rest is read too, so that nobody is held up."""
    kept = b""
    while data := await stream.read(65536):
        if len(kept) < MOST_OUTPUT:
            kept += data
    return kept[:MOST_OUTPUT]


async def _connect(host: str, port: int) -> HandlerResult:
    try:
        async with connected(host, port):
            return HandlerResult(True)
    except DialError as problem:
        return HandlerResult(False, str(problem))
