"""Redis: the smallest driver, and the example to follow.

    spec:
      application: redis
      configuration: {settings: {maxmemory: 64mb, appendonly: "yes"}}

The settings are the lines of ``redis.conf``. A single instance has no peer to move its data to, so a
decommission is done when it is empty.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final

from pilothouse.api.objects import Object, Tree
from pilothouse.pilot.driver import (
    DesiredState,
    Hook,
    HookFailed,
    InstanceEnvironment,
    MetricValue,
    Observation,
    Phase,
    StartCommand,
)

PORT: Final = 6379
_SECONDS: Final = 3.0
_LONGEST: Final = 256 * 1024
"""Bytes of an answer. While Redis is down another program may listen in its place, and send anything."""
_FIGURES: Final = {
    "used_memory": ("redis_memory_used_bytes", "Memory that Redis has allocated."),
    "maxmemory": ("redis_memory_max_bytes", "Memory that Redis may allocate; 0 is no limit."),
    "connected_clients": ("redis_connected_clients", "Clients that are connected."),
    "total_commands_processed": ("redis_commands_processed", "Commands since the start."),
}
_SAID: Final = 300
"""Characters of an error that are reported."""


class Redis:
    application = "redis"

    def __init__(self, instance: InstanceEnvironment) -> None:
        self._instance = instance
        self._port = int(instance.environ.get("REDIS_PORT") or PORT)
        self._file = instance.folder / "redis.conf"

    def hooks(self, phase: Phase, desired: DesiredState) -> Sequence[Hook]:
        if phase != "PreStart":
            return ()
        return (Hook("WriteConfiguration", lambda: self._write(desired)),)

    def start(self, desired: DesiredState) -> StartCommand:
        return StartCommand(
            argv=("redis-server", str(self._file)),
            environ={**self._instance.environ, **desired.environment},
            folder=str(self._instance.folder),
        )

    async def observe(self, desired: DesiredState) -> Observation:
        try:
            async with asyncio.timeout(_SECONDS):
                info = parsed(await self._info())
            keys = sum(
                int(text.partition("keys=")[2].partition(",")[0])
                for name, text in info.items()
                if is_database(name)
            )
            metrics = tuple(
                MetricValue(name, help, float(info[key]))
                for key, (name, help) in _FIGURES.items()
                if key in info
            )
        except (OSError, TimeoutError, asyncio.IncompleteReadError, ValueError) as problem:
            return Observation(
                ready=False,
                message=f"Redis does not answer: {str(problem)[:_SAID] or 'it takes too long'}",
                answers=not isinstance(problem, ConnectionRefusedError),
            )
        loading = info.get("loading") == "1"
        return Observation(
            ready=not loading,
            message="Redis is still loading its data" if loading else "",
            version=info.get("redis_version", ""),
            left=f"{keys} keys are left" if keys else "",
            writes_refused=self._refusal(desired, info),
            metrics=metrics,
        )

    def _refusal(self, desired: DesiredState, info: dict[str, str]) -> str:
        """Why it refuses writes; empty if it accepts them."""
        stops = str(desired.settings.get("stop-writes-on-bgsave-error") or "yes") == "yes"
        if info.get("aof_last_write_status") == "err":
            field = "aof_last_write_status"
        elif stops and info.get("rdb_last_bgsave_status") == "err":
            field = "rdb_last_bgsave_status"
        else:
            return ""
        return (
            f"Redis refuses writes, since it can't save its data ({field}: err): free space at "
            f"{self._instance.folder}, where its user must be able to write; its log has the error."
        )

    def is_candidate(self, desired: DesiredState) -> bool:
        return False

    async def lead(self, desired: DesiredState, peers: Sequence[Object], leads: Callable[[], bool]) -> Tree:
        return {}

    async def _write(self, desired: DesiredState) -> None:
        try:
            self._instance.folder.mkdir(parents=True, exist_ok=True)
            self._file.write_text(lines(desired.settings, self._instance, self._port))
        except OSError as problem:
            raise HookFailed(
                f"{self._file} can't be written: {problem.strerror}; the user that runs Redis must own its "
                "data folder"
            ) from None

    async def _info(self) -> str:
        reader, writer = await asyncio.open_connection(self._instance.address, self._port)
        try:
            writer.write(b"INFO\r\n")
            head = (await reader.readline()).decode()
            if not head.startswith("$"):
                raise ConnectionError(head.strip() or "the connection was closed")
            length = int(head[1:])
            if not 0 <= length <= _LONGEST:
                raise ConnectionError(f"an answer to INFO of {length} bytes; at most {_LONGEST} are read")
            return (await reader.readexactly(length)).decode()
        finally:
            writer.close()


def make(instance: InstanceEnvironment) -> Redis:
    return Redis(instance)


def lines(settings: Any, instance: InstanceEnvironment, port: int) -> str:
    """``redis.conf``. What follows from the environment can't be overridden."""
    fixed = {"bind": instance.address, "port": port, "dir": str(instance.folder), "daemonize": "no"}
    found = {**settings, **fixed}
    return "".join(f"{name} {value}\n" for name, value in found.items())


def parsed(info: str) -> dict[str, str]:
    pairs = (line.partition(":") for line in info.splitlines() if ":" in line and not line.startswith("#"))
    return {name: value for name, _, value in pairs}


def is_database(name: str) -> bool:
    return name.startswith("db") and name[2:].isdigit()
