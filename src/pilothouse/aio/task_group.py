"""Several coroutines that live and die together.

    await together({"decision log": decision_log.run(), "stateful-sets": engine.run()})

All run until the first fails or this is cancelled; then the others are cancelled, and that first failure is raised as what
it is, not wrapped in a group. What else fails on the way out is noted with it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from typing import Any


async def together(parts: Mapping[str, Coroutine[Any, Any, None]]) -> None:
    """Run them all. Names are those of the tasks."""
    try:
        async with asyncio.TaskGroup() as group:
            for name, part in parts.items():
                group.create_task(part, name=name)
    except BaseExceptionGroup as failed:
        first, *others = failed.exceptions
        for other in others:
            first.add_note(f"meanwhile another failed: {type(other).__name__}: {other}")
        raise first from None
