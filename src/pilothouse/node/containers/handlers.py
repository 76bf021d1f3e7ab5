"""The handlers of hooks and probes: exec, httpGet, tcpSocket, sleep.

    result = await run_handler(handler, HandlerTarget(container, spec, address), timeout=1.0)
    result.succeeded, result.output

At the timeout a program is killed and a connection closed. Every error becomes a failed result.
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
    succeeded: bool
    output: str = ""
    code: int = 0
    """The exit code of a program."""
    asked: bool = True
    """False if the handler could not run, which says nothing about the container's health."""

    @property
    def why(self) -> str:
        """Why it failed: exit code and output."""
        return (
            ": ".join(filter(None, (f"exit code {self.code}" if self.code else "", self.output)))
            or "it failed"
        )


class HandlerTarget(msgspec.Struct, frozen=True):
    container: RunningContainer
    spec: Tree
    address: str
    """Of the pod."""


async def run_handler(handler: Mapping[str, Any], target: HandlerTarget, timeout: float) -> HandlerResult:
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
    except Exception as problem:  # noqa: BLE001 - logged; to every caller it is a failed handler
        return _unforeseen(problem)
    return HandlerResult(False, f"missing probe handler: {sorted(handler)}")


def _unforeseen(problem: Exception) -> HandlerResult:
    """A failed result for an error of the agent, which says nothing about the container's health."""
    message = f"{type(problem).__name__}: {problem}"
    log.error("error running a probe or hook: %s", message, exc_info=log.isEnabledFor(logging.DEBUG))
    return HandlerResult(False, message, asked=False)


class PortUnknown(ValueError):
    """The container has no port of that name."""


def port_of(port: int | str, container: Tree) -> int:
    """A port number, from a number or from the name of a container port."""
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
            # A background process that it started may hold the streams open indefinitely.
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
    """The beginning of the output; the rest is read and dropped, so that the program does not block."""
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
