from __future__ import annotations

import pytest
from tests.kit.played_machine import Play
from tests.node.stage import Stage, app, is_ready

from pilothouse.node.leaving import end_pods
from pilothouse.supervise.containers import StillRunning


def test_one_that_hangs_keeps_no_other_from_ending_in_its_own_time(stage: Stage) -> None:
    async def scene() -> None:
        stage.machine.cast["stuck"] = Play(hangs=True)
        stage.machine.cast["slow"] = Play(stops_in=25.0)
        await stage.pod({"terminationGracePeriodSeconds": 1, "containers": [app("stuck")]}, "web-0")
        await stage.pod({"terminationGracePeriodSeconds": 60, "containers": [app("slow")]}, "web-1")
        await stage.until(is_ready, "web-0")
        await stage.until(is_ready, "web-1")
        await stage.kill_agent()
        [slow] = stage.machine.named("slow")
        with pytest.raises(StillRunning, match="has not ended"):
            await end_pods(stage.settings.data, stage.machine, stage.clock, patience=120)
        assert slow.ended is not None
        assert (slow.ended.code, slow.ended.signal) == (0, None)
        assert [each.name for each in stage.machine.running] == ["stuck"]

    stage.play(scene)
