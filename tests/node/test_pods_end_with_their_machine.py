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


def test_an_end_that_was_ordered_is_no_crash(stage: Stage) -> None:
    """Five times down and up in a row, as with an update of the machine: the program is started at once each time."""

    async def scene() -> None:
        await stage.pod({"containers": [app("db")]}, "web-0")
        for times in range(5):
            pod = await stage.until(is_ready, "web-0")
            [status] = pod.status["containerStatuses"]
            assert status["restartCount"] == times
            await stage.kill_agent()
            await end_pods(stage.settings.data, stage.machine, stage.clock, patience=120)
            before = stage.clock.now()
            stage.start_agent()
            await stage.until(
                lambda one, times=times: (
                    is_ready(one) and one.status["containerStatuses"][0]["restartCount"] > times
                ),
                "web-0",
            )
            assert stage.clock.now() - before < 9, "there was no pause"

    stage.play(scene)
