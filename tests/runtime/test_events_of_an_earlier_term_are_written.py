"""A leader that is deposed while it writes events, and leads again, goes on with it."""

from __future__ import annotations

import pytest
from tests.runtime.conftest import Bench

from pilothouse.api.kind_names import ConfigMap, CoreEvent
from pilothouse.client.fence import LeadershipFence
from pilothouse.runtime.decision_log import DecisionLog
from pilothouse.runtime.election import LeadershipLost


def deposed() -> LeadershipFence | None:
    raise LeadershipLost("another leads")


def free() -> LeadershipFence | None:
    return None


def test_events_are_written_in_the_next_term(bench: Bench) -> None:
    async def scenario(bench: Bench) -> None:
        one = await bench.api.create(ConfigMap, {"metadata": {"name": "a", "namespace": "default"}})
        decision_log = DecisionLog(bench.api, bench.clock, manager="m1", component="test")
        decision_log.record_event(one, "Made", "it was made", False)
        with pytest.raises(LeadershipLost):
            await decision_log.run(deposed)
        assert not decision_log.idle
        bench.start(decision_log.run(free))
        await bench.settle()
        assert decision_log.idle
        assert [event["reason"] for event in (await bench.api.list(CoreEvent, "default")).objects] == ["Made"]

    bench.run(scenario)
