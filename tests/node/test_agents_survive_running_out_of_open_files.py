"""An agent that can't open a file any more goes on, and is well again once it can."""

from __future__ import annotations

import asyncio

from tests.kit.open_files import no_more_files
from tests.node.stage import Stage, app, phase


def test_an_agent_without_open_files_goes_on_and_starts_pods_when_there_are_some(stage: Stage) -> None:
    async def scene() -> None:
        await stage.pod({"containers": [app()]})
        await stage.until(lambda pod: phase(pod) == "Running")
        with no_more_files():
            # Evictions, statuses and leases come round several times.
            await stage.pod({"containers": [app()]}, "later")
            await asyncio.sleep(60)
        assert stage.is_agent_running
        await stage.until(lambda pod: phase(pod) == "Running", "later", seconds=120)

    stage.play(scene)
