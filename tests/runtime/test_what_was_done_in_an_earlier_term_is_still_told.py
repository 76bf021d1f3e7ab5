"""A leader that is deposed while it writes its journal, and leads again, goes on with it."""

from __future__ import annotations

import pytest
from tests.runtime.conftest import Bench

from pilothouse.api.nouns import ConfigMap, CoreEvent
from pilothouse.client.fence import Fence
from pilothouse.runtime.journal import Journal
from pilothouse.runtime.leading import Deposed
from pilothouse.runtime.recording import Stamp


def deposed() -> Fence | None:
    raise Deposed("another leads")


def free() -> Fence | None:
    return None


def test_events_are_written_in_the_next_term(bench: Bench) -> None:
    async def scenario(bench: Bench) -> None:
        one = await bench.api.create(ConfigMap, {"metadata": {"name": "a", "namespace": "default"}})
        journal = Journal(bench.api, bench.clock, stamp=Stamp("m1"), component="test")
        journal.tell(one, "Made", "it was made", False)
        with pytest.raises(Deposed):
            await journal.run(deposed)
        assert not journal.idle
        bench.start(journal.run(free))
        await bench.settle()
        assert journal.idle
        assert [event["reason"] for event in (await bench.api.list(CoreEvent, "default")).objects] == ["Made"]

    bench.run(scenario)
