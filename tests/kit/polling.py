"""Controllers run in the simplest way: everything is listed, decided about and acted on, over and over.

    async with polling(api, stateful_sets, disruption_budgets):
        …

It is what the engine does, without its caches and queues: a suite about what controllers decide needs no more.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from pilothouse.api.nouns import noun_of
from pilothouse.base.clock import SystemClock
from pilothouse.client.rest import Api
from pilothouse.runtime.acting import Actor
from pilothouse.runtime.conditioning import conditioned
from pilothouse.runtime.declaring import Controller, Key
from pilothouse.runtime.expecting import Expectations
from pilothouse.runtime.world import Still, World

_PAUSE = 0.1


@contextlib.asynccontextmanager
async def polling(api: Api, *controllers: Controller) -> AsyncIterator[None]:
    """The controllers work within the context."""
    task = asyncio.create_task(_work(api, controllers))
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def _work(api: Api, controllers: tuple[Controller, ...]) -> None:
    expectations = Expectations()
    actor = Actor(
        api, manager="polling", noun_of=noun_of, tell=lambda *event: None, expectations=expectations
    )
    while True:
        for controller in controllers:
            await _round(api, controller, actor)
            expectations.clear()
        await asyncio.sleep(_PAUSE)


async def _round(api: Api, controller: Controller, actor: Actor) -> None:
    views = {noun: Still((await api.list(noun)).objects) for noun in controller.nouns}
    now = SystemClock().now()
    for one in views[controller.primary].list():
        intents = controller(one, World(views, now=now))
        if controller.condition:
            intents = conditioned(intents, one, controller.condition, now=now)
        await actor.carry_out(intents, one, Key(controller.primary, one.namespace, one.name), None)
