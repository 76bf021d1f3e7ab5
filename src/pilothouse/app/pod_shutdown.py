"""Stops all pods of a node: within their grace periods, or at once if the user is in a hurry."""

from __future__ import annotations

import asyncio
from pathlib import Path

from pilothouse.app.graceful_shutdown import ShutdownRequest
from pilothouse.app.options import StartError
from pilothouse.base.clock import SystemClock
from pilothouse.node.machine.shutdown import end_pods
from pilothouse.supervise import containers
from pilothouse.supervise.launch_spec import LaunchError

STOP_SECONDS = 120.0
"""The limit of all grace periods when the node stops with its pods."""


async def end_all(node: Path, stop: ShutdownRequest) -> int:
    """Stop all containers; returns their number. No agent may run. Raises ``StartError``."""
    clock = SystemClock()
    ending = asyncio.create_task(end_pods(node, containers, clock, patience=STOP_SECONDS))
    hurried = asyncio.create_task(stop.hurried.wait())
    await asyncio.wait((ending, hurried), return_when=asyncio.FIRST_COMPLETED)
    hurried.cancel()
    if not ending.done():
        ending.cancel()
        await asyncio.gather(ending, return_exceptions=True)
        ending = asyncio.create_task(end_pods(node, containers, clock, patience=0))
    try:
        return await ending
    except (containers.StillRunning, LaunchError, OSError) as problem:
        raise StartError(str(problem)) from None
