"""The lines in which a node says how it is: one when it is ready and, if that takes long, one before with the
reason.

    await announce_readiness(registration, certificate.issued, settings, announce=print)

    node laptop is not ready: containers can't have namespaces of their own: …
    node laptop is ready at 127.0.0.1

``up`` and people wait for the first line, whichever it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from pilothouse.app.processes import WHY_NOT_READY
from pilothouse.base.terminal_text import escape_control_characters
from pilothouse.node.machine.registration import NodeRegistration
from pilothouse.node.settings import NodeSettings

READY_SECONDS: Final = 10.0
"""How long a node may take to get ready before it says why it is not."""


async def announce_readiness(
    registration: NodeRegistration,
    issued: Callable[[], Awaitable[None]],
    settings: NodeSettings,
    announce: Callable[[str], None],
) -> None:
    """Returns once the API has the node as ready. ``issued`` waits for the certificate of its own server."""
    try:
        async with asyncio.timeout(READY_SECONDS):
            await _ready(registration, issued)
    except TimeoutError:
        why = escape_control_characters(registration.why_not_ready)
        announce(f"node {settings.name}{WHY_NOT_READY}{why}")
        await _ready(registration, issued)
    announce(f"node {settings.name} is ready at {settings.address}")


async def _ready(registration: NodeRegistration, issued: Callable[[], Awaitable[None]]) -> None:
    await issued()
    registration.refresh()
    await registration.ready()
