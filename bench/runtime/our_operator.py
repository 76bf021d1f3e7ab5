"""The operator on our runtime: `python -m bench.runtime.our_operator KUBECONFIG`.

It works on 64 objects at once; kopf has no such limit. Both have the fast event loop. Its memory is kept as every manager
of ours keeps it.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random

import uvloop

from bench.runtime.widgets import WIDGET
from pilothouse.api.objects import Object
from pilothouse.app import memory_tuning
from pilothouse.base.clock import SystemClock
from pilothouse.client.api import Api
from pilothouse.client.http_transport import HttpTransport
from pilothouse.client.kubeconfig import load
from pilothouse.client.shared_informers import SharedInformers
from pilothouse.runtime.controller import controller
from pilothouse.runtime.election import NoElection
from pilothouse.runtime.intents import Intent, SetStatus
from pilothouse.runtime.manager import Manager
from pilothouse.runtime.snapshot import Snapshot


@controller(WIDGET, workers=64)
def widgets(widget: Object, world: Snapshot) -> Iterator[Intent]:
    """The status shows the value."""
    value = widget.spec.get("value")
    if widget.status.get("seen") != value:
        yield SetStatus(widget, {"seen": value}, because=f"the value is {value}")


async def main(kubeconfig: str) -> None:
    memory_tuning.settle_later(asyncio.get_running_loop())
    clock, rng = SystemClock(), Random()
    async with HttpTransport.open(load(Path(kubeconfig)), clock, agent="our-operator") as transport:
        api = Api(transport, rng, manager="our-operator")
        manager = Manager(
            api, [widgets], SharedInformers(api, rng, clock), NoElection(), clock, identity="bench"
        )
        await manager.run()


if __name__ == "__main__":
    memory_tuning.start_quietly()
    uvloop.run(main(sys.argv[1]))
