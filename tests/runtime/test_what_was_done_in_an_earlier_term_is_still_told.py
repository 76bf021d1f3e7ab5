"""A leader that is deposed while it writes its journal, and leads again, goes on with it."""

from __future__ import annotations

import pytest
from tests.runtime.conftest import Bench

from pilothouse.api.kind_names import ConfigMap, CoreEvent
from pilothouse.client.fence import LeadershipFence
from pilothouse.runtime.decision_log import DecisionLog
from pilothouse.runtime.decision_record import RecordAuthor
from pilothouse.runtime.leader_fence import LeadershipLost


def deposed() -> LeadershipFence | None:
    raise LeadershipLost("another leads")


def free() -> LeadershipFence | None:
    return None


def test_events_are_written_in_the_next_term(bench: Bench) -> None:
    async def scenario(bench: Bench) -> None:
        one = await bench.api.create(ConfigMap, {"metadata": {"name": "a", "namespace": "default"}})
        journal = DecisionLog(bench.api, bench.clock, stamp=RecordAuthor("m1"), component="test")
        journal.tell(one, "Made", "it was made", False)
        with pytest.raises(LeadershipLost):
            await journal.run(deposed)
        assert not journal.idle
        bench.start(journal.run(free))
        await bench.settle()
        assert journal.idle
        assert [event["reason"] for event in (await bench.api.list(CoreEvent, "default")).objects] == ["Made"]

    bench.run(scenario)
