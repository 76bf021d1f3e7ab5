"""Whether a restarted program is the one that was installed, and stays healthy.

problem = await check_program(program, files, expected, profile, clock)      # "" if all is well
"""

from __future__ import annotations

import asyncio
from typing import Final

import msgspec

from pilothouse.base.clock import Clock
from pilothouse.node.updating.installed_program import ProgramFiles
from pilothouse.node.updating.managed_program import ManagedProgram, ProgramError
from pilothouse.node.updating.update_profile import UpdateProfile

MOST_EXITS: Final = 3
"""A program that the agent runs, and that ends so often by itself, is not checked any longer."""
_LONGEST_PAUSE: Final = 1.0


class ExpectedProgram(msgspec.Struct, frozen=True):
    version: str
    """Empty for any."""
    digest: str


async def check_program(
    program: ManagedProgram,
    files: ProgramFiles,
    expected: ExpectedProgram,
    profile: UpdateProfile,
    clock: Clock,
) -> str:
    """Why it is not the expected program, or not healthy for long enough; empty if it is both."""
    installed = await files.digest()
    if installed != expected.digest:
        return f"{files.path} has the digest {installed or 'of no file'}, not {expected.digest}"
    lasting, within = profile.seconds("health_for"), profile.seconds("health_within")
    began = clock.monotonic()
    healthy_since: float | None = None
    ended = 0
    while True:
        exits, how = program.exits()
        problem, final = (how, True) if exits >= MOST_EXITS else await _look(program, expected)
        now = clock.monotonic()
        if exits != ended:
            ended, healthy_since = exits, None
        if problem:
            healthy_since = None
            if final or now - began >= within:
                return problem if final else f"{problem} (waited {within:g} s)"
        else:
            healthy_since = now if healthy_since is None else healthy_since
            if now - healthy_since >= lasting:
                return ""
        await asyncio.sleep(min(_LONGEST_PAUSE, max(lasting / 4, 0.02)))


async def _look(program: ManagedProgram, expected: ExpectedProgram) -> tuple[str, bool]:
    """What is wrong, and whether that can't change any more."""
    running = await program.running_digest()
    if running and running != expected.digest:
        return f"what runs has the digest {running}, not {expected.digest}", True
    try:
        version = await program.version()
    except ProgramError as problem:
        return f"it does not answer for its version: {problem}", False
    if expected.version and version != expected.version:
        # A service manager may return before the old process has ended.
        return f"it reports the version {version}, not {expected.version}", program.supervised
    if unhealthy := await program.health():
        return f"it is not healthy: {unhealthy}", False
    return "", False
