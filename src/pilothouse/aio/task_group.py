"""Runs several coroutines together until the first fails.

await together({"decision log": decision_log.run(), "stateful-sets": engine.run()})
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from typing import Any


async def together(parts: Mapping[str, Coroutine[Any, Any, None]]) -> None:
    """Run all coroutines, as tasks of these names, until the first fails or the caller is cancelled.

    The first failure is raised itself, not in a group; failures during the cancellation are notes on it.
    """
    try:
        async with asyncio.TaskGroup() as group:
            for name, part in parts.items():
                group.create_task(part, name=name)
    except BaseExceptionGroup as failed:
        first, *others = failed.exceptions
        for other in others:
            first.add_note(f"meanwhile another failed: {type(other).__name__}: {other}")
        raise first from None
