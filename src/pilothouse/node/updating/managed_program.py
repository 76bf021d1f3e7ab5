"""The program that is updated, as a process: its version, its health, its restart.

    program = ManagedProgram(profile)
    await program.version()            # "v1.31.0+k0s.0"; ProgramError if it does not answer
    await program.health()             # "" or "Get http://…: connection refused"
    await program.restart()

This one is restarted by a command, such as that of a service manager; see ``supervised_program``.
"""

from __future__ import annotations

import asyncio
from typing import Final
from urllib.parse import urlsplit

import msgspec

from pilothouse.aio.commands import CommandError, run
from pilothouse.node.containers.http_probe import probe_http
from pilothouse.node.containers.probe_connection import ResultUnknown
from pilothouse.node.updating.update_profile import UpdateProfile

ANSWER_SECONDS: Final = 30.0
"""How long a program may take to answer for its version or its health."""
RESTART_SECONDS: Final = 600.0
_PORTS: Final = {"http": 80, "https": 443}


class ProgramError(Exception):
    """The program does not answer, or can't be restarted; the message says why."""


class ManagedProgram:
    supervised: bool = False
    """Whether the agent itself runs it, and so knows which file runs."""

    def __init__(self, profile: UpdateProfile) -> None:
        self._profile = profile

    async def version(self) -> str:
        """The version that it reports. Raises ProgramError."""
        program, *arguments = self._profile.expanded(self._profile.version)
        try:
            output = await run(program, *arguments, patience=ANSWER_SECONDS)
        except CommandError as problem:
            raise ProgramError(str(problem)) from None
        version = _version_in(output)
        if not version:
            raise ProgramError(f"{program} printed no version")
        return version

    async def health(self) -> str:
        """Why it is not healthy; empty if it is."""
        health = self._profile.health
        if isinstance(health, str):
            return await _health_at(health)
        program, *arguments = self._profile.expanded(health)
        try:
            await run(program, *arguments, patience=ANSWER_SECONDS)
        except CommandError as problem:
            return str(problem)
        return ""

    async def restart(self) -> None:
        """Returns when it was restarted, healthy or not. Raises ProgramError."""
        program, *arguments = self._profile.expanded(self._profile.restart)
        try:
            await run(program, *arguments, patience=RESTART_SECONDS)
        except CommandError as problem:
            raise ProgramError(f"it can't be restarted: {problem}") from None

    async def running_digest(self) -> str:
        """SHA-256 of the file that runs; empty if that is not known."""
        return ""

    def exits(self) -> tuple[int, str]:
        """How often it has ended by itself since its last restart, and how the last time."""
        return 0, ""

    async def run(self) -> None:
        """Keep it running, where that is the agent's work; until cancelled."""
        await asyncio.get_running_loop().create_future()


def _version_in(output: str) -> str:
    """The field ``Version`` of a JSON object, or the first line."""
    try:
        found = msgspec.json.decode(output)
    except msgspec.DecodeError:
        return next((line.strip() for line in output.splitlines() if line.strip()), "")
    if isinstance(found, dict):
        return str(found.get("Version") or found.get("version") or "")
    return str(found)


async def _health_at(url: str) -> str:
    parts = urlsplit(url)
    path = f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"
    get = {"path": path, "scheme": parts.scheme.upper()}
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            succeeded, output = await probe_http(
                get, parts.hostname or "", parts.port or _PORTS[parts.scheme]
            )
    except TimeoutError:
        return f"{url} does not answer within {ANSWER_SECONDS:g} s"
    except ResultUnknown as problem:
        return str(problem)
    return "" if succeeded else output
