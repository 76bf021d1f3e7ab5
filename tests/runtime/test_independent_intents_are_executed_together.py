"""Independent writes of one decision are made at the same time; a refusal stops none, a failure the rest."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from random import Random

import msgspec
import pytest
from tests.kit.memory_transport import NOUNS, MemoryObjects, MemoryTransport
from tests.kit.scheduling_objects import node

from pilothouse.api.kind_names import Node
from pilothouse.api.objects import Object
from pilothouse.client.api import Api
from pilothouse.client.fence import LeadershipFence
from pilothouse.client.transport import ClientRequest, ClientResponse, ResponseStreamReader
from pilothouse.meta import errors
from pilothouse.runtime.controller import ReconcileKey
from pilothouse.runtime.election import LeadershipLost
from pilothouse.runtime.expectations import Expectations
from pilothouse.runtime.intent_executor import AT_ONCE, IntentExecutor
from pilothouse.runtime.intents import Intent, PatchObject
from pilothouse.runtime.reconcile_result import ExecutedIntent, IntentOutcome

MANY = 3 * AT_ONCE


class Line:
    """A way to the server that takes a while, and counts how many requests are on it."""

    def __init__(self, objects: MemoryObjects, broken: str) -> None:
        self._transport = MemoryTransport(objects)
        self._broken = broken
        self._under_way = 0
        self.most = 0
        self.order: list[str] = []

    async def request(self, call: ClientRequest) -> ClientResponse:
        self._under_way += 1
        self.most = max(self.most, self._under_way)
        name = call.path.rpartition("/")[2]
        self.order.append(name)
        try:
            await asyncio.sleep(0)
            if name == self._broken:
                refusal = errors.forbidden("nodes", "", name, "not this one")
                return ClientResponse(403, {}, msgspec.json.encode(refusal.to_dict()))
            return await self._transport.request(call)
        finally:
            self._under_way -= 1

    @asynccontextmanager
    async def stream(self, call: ClientRequest) -> AsyncIterator[ResponseStreamReader]:
        raise NotImplementedError
        yield


class Nodes(MemoryObjects):
    """Nodes, and what executes intents about them."""

    def __init__(self, broken: str = "") -> None:
        super().__init__()
        self.nodes = [self.add(node(f"n{number:02}")) for number in range(MANY)]
        self.line = Line(self, broken)

    def execute(
        self, intents: list[Intent], fence: Callable[[], LeadershipFence | None] = lambda: None
    ) -> tuple[ExecutedIntent, ...]:
        executor = IntentExecutor(
            Api(self.line, Random(0), manager="test"),
            manager="test",
            noun_of=lambda api_version, kind: NOUNS.get((api_version, kind)),
            record_event=lambda about, reason, message, warning, source: None,
            expectations=Expectations(),
        )
        seen = self.nodes[0]
        return asyncio.run(executor.execute(intents, seen, ReconcileKey(Node, "", seen.name), fence))

    def marked(self) -> int:
        return sum("mark" in one.annotations for one in self.all(Node))


def mark(one: Object, *, independent: bool = True) -> PatchObject:
    fields = {"metadata": {"annotations": {"mark": "yes"}}}
    return PatchObject(one, fields, exact=True, independent=independent, because="it is marked")


def test_as_many_as_allowed_are_on_their_way() -> None:
    fleet = Nodes()
    executed = fleet.execute([mark(one) for one in fleet.nodes])
    assert fleet.marked() == MANY
    assert fleet.line.most == AT_ONCE
    assert [each.intent for each in executed] == [mark(one) for one in fleet.nodes]
    assert {each.outcome for each in executed} == {IntentOutcome.DONE}


def test_others_wait_for_those_before_them() -> None:
    fleet = Nodes()
    first, last = fleet.nodes[0], fleet.nodes[-1]
    together = [mark(one) for one in fleet.nodes[1:-1]]
    fleet.execute([mark(first, independent=False), *together, mark(last, independent=False)])
    assert fleet.line.order[0] == first.name
    assert fleet.line.order[-1] == last.name
    assert fleet.marked() == MANY


def test_one_that_has_changed_stops_what_follows_and_none_beside_it() -> None:
    fleet = Nodes()
    fleet.change(fleet.nodes[0], lambda tree: tree["metadata"].update(labels={"changed": "yes"}))
    follows = mark(fleet.nodes[-1], independent=False)
    executed = fleet.execute([*(mark(one) for one in fleet.nodes[:-1]), follows])
    assert executed[0].outcome is IntentOutcome.REFUSED
    assert executed[-1].outcome is IntentOutcome.PENDING
    assert fleet.marked() == MANY - 2


def test_after_a_failure_no_further_one_begins() -> None:
    fleet = Nodes(broken="n00")
    executed = fleet.execute([mark(one) for one in fleet.nodes])
    outcomes = [each.outcome for each in executed]
    assert outcomes[0] is IntentOutcome.FAILED
    assert outcomes[-1] is IntentOutcome.PENDING
    assert fleet.marked() == outcomes.count(IntentOutcome.DONE) < MANY - 1


def test_the_end_of_the_term_ends_all() -> None:
    fleet = Nodes()
    asked = iter(range(5))

    def fence() -> LeadershipFence | None:
        if next(asked, None) is None:
            raise LeadershipLost("another process leads")
        return None

    with pytest.raises(LeadershipLost, match="another process leads"):
        fleet.execute([mark(one) for one in fleet.nodes], fence)
    assert fleet.marked() <= 5
