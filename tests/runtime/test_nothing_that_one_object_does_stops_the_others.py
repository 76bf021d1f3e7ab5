"""Objects that nobody expected, and controllers that ask for nonsense: each fails alone, and says so."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from random import Random

from tests.runtime.conftest import Bench
from tests.runtime.test_controllers_look_after_any_kind import DEFINITION, WIDGET

from pilothouse.api.kind_names import ConfigMap, CoreEvent, CustomResourceDefinition, Decision, Pod, Secret
from pilothouse.api.objects import Object, Tree
from pilothouse.client.api import Api
from pilothouse.client.transport import ClientRequest, ClientResponse, ResponseStreamReader, Transport
from pilothouse.runtime.controller import controller
from pilothouse.runtime.intents import Create, Delete, Intent, PatchObject, RequeueAfter, Wait
from pilothouse.runtime.snapshot import Snapshot


def widget(name: str, **status: object) -> Tree:
    meta = {"name": name, "namespace": "default"}
    return {"apiVersion": "example.io/v1", "kind": "Widget", "metadata": meta, "status": status}


def test_one_that_breaks_a_decision_has_a_condition_with_the_reason(bench: Bench) -> None:
    @controller(Pod, condition="Reconciled")
    def fragile(one: Object, world: Snapshot) -> Iterator[Intent]:
        """Can't bear pods."""
        raise ValueError("what is this?")
        yield

    async def scenario(bench: Bench) -> None:
        bench.manage([fragile])
        spec = {"containers": [{"name": "c", "image": "x"}]}
        await bench.api.create(Pod, {"metadata": {"name": "p", "namespace": "default"}, "spec": spec})
        await bench.settle(20)
        told = (await bench.api.get(Pod, "p", "default")).condition("Reconciled")
        assert told is not None
        assert (told["status"], told["reason"]) == ("False", "DecisionFailed")
        assert "what is this?" in told["message"]

    bench.run(scenario)


def test_a_controller_that_declares_no_condition_leaves_one_too(bench: Bench) -> None:
    moody = {"broken": True}

    @controller(Pod)
    def fragile(one: Object, world: Snapshot) -> Iterator[Intent]:
        """Can't bear pods, for a while."""
        if moody["broken"]:
            raise ValueError("what is this?")
        yield Wait("Never", because="it is not time")

    async def scenario(bench: Bench) -> None:
        bench.manage([fragile])
        spec = {"containers": [{"name": "c", "image": "x"}]}
        await bench.api.create(Pod, {"metadata": {"name": "p", "namespace": "default"}, "spec": spec})
        await bench.settle(20)
        told = (await bench.api.get(Pod, "p", "default")).condition("pilothouse.io/fragile")
        assert told is not None
        assert (told["status"], told["reason"]) == ("False", "DecisionFailed")
        assert "what is this?" in told["message"]
        moody["broken"] = False
        await bench.settle(400)
        assert (await bench.api.get(Pod, "p", "default")).is_true("pilothouse.io/fragile")

    bench.run(scenario)


def test_one_whose_kind_has_no_conditions_gets_an_event(bench: Bench) -> None:
    @controller(ConfigMap)
    def fragile(one: Object, world: Snapshot) -> Iterator[Intent]:
        """Can't bear one of them."""
        if one.name == "bad":
            raise ValueError("what is this?")
        yield from ()

    async def scenario(bench: Bench) -> None:
        bench.manage([fragile])
        await bench.api.create(ConfigMap, {"metadata": {"name": "bad", "namespace": "default"}})
        await bench.settle(20)
        (event,) = [
            one for one in (await bench.api.list(CoreEvent)).objects if one["reason"] == "DecisionFailed"
        ]
        assert (event["type"], event["involvedObject"]["name"]) == ("Warning", "bad")
        assert "what is this?" in event["message"]
        record = await bench.api.get(Decision, "fragile.configmap.bad", "default")
        assert record["outcome"] == "Failed"

    bench.run(scenario)


def test_who_is_concerned_is_asked_again_after_a_mapper_broke(bench: Bench) -> None:
    moody = {"broken": True}

    def concerned(changed: Object, world: Snapshot) -> list[tuple[str, str]]:
        if changed.name == "s" and moody["broken"]:
            raise ValueError("who is that?")
        return [("default", "c")] if changed.name == "s" else []

    @controller(ConfigMap, also={Secret: concerned})
    def following(one: Object, world: Snapshot) -> Iterator[Intent]:
        """Shows whether there is a secret."""
        if one.name == "c" and world.find(Secret, "default", "s") and not one.labels.get("seen"):
            yield PatchObject(one, {"metadata": {"labels": {"seen": "yes"}}}, because="there is a secret")

    async def scenario(bench: Bench) -> None:
        manager = bench.manage([following])
        await bench.api.create(ConfigMap, {"metadata": {"name": "c", "namespace": "default"}})
        await bench.settle()
        await bench.api.create(Secret, {"metadata": {"name": "s", "namespace": "default"}})
        await bench.settle(20)
        assert "seen" not in (await bench.api.get(ConfigMap, "c", "default")).labels
        record = await bench.api.get(Decision, "following.secret.s", "default")
        assert (record["outcome"], "who is that?" in record["summary"]) == ("Failed", True)
        assert manager.engines[0].counters.errors >= 2
        moody["broken"] = False
        await bench.settle(400)
        assert (await bench.api.get(ConfigMap, "c", "default")).labels == {"seen": "yes"}
        record = await bench.api.get(Decision, "following.secret.s", "default")
        assert record["outcome"] == "Nothing"

    bench.run(scenario)


def test_one_whose_conditions_cannot_be_read_fails_alone(bench: Bench) -> None:
    @controller(WIDGET, condition="Ready")
    def waiting(one: Object, world: Snapshot) -> Iterator[Intent]:
        """Waits for ever."""
        yield Wait("Never", because="it is not time")

    async def scenario(bench: Bench) -> None:
        await bench.api.create(CustomResourceDefinition, DEFINITION)
        await bench.settle()
        for name, status in (("junk", {"conditions": "what?"}), ("good", {})):
            await bench.api.create(WIDGET, widget(name))
            if status:
                await bench.api.patch(WIDGET, name, "default", {"status": status}, subresource="status")
        bench.manage([waiting])
        await bench.settle(20)
        assert (await bench.api.get(WIDGET, "good", "default")).condition("Ready") is not None
        record = await bench.api.get(Decision, "waiting.widget.example.io.junk", "default")
        assert record["outcome"] == "Failed"

    bench.run(scenario)


def test_an_intent_that_is_nonsense_fails_alone(bench: Bench) -> None:
    @controller(ConfigMap)
    def silly(one: Object, world: Snapshot) -> Iterator[Intent]:
        """Asks for nothing that there could be."""
        if one.name == "bad":
            yield Create({"kind": "ConfigMap"}, because="why not")
        elif one.name == "good" and not one.labels.get("seen"):
            yield PatchObject(one, {"metadata": {"labels": {"seen": "yes"}}}, because="it was seen")

    async def scenario(bench: Bench) -> None:
        bench.manage([silly])
        for name in ("bad", "good"):
            await bench.api.create(ConfigMap, {"metadata": {"name": name, "namespace": "default"}})
            await bench.settle(20)
        assert (await bench.api.get(ConfigMap, "good", "default")).labels == {"seen": "yes"}
        record = await bench.api.get(Decision, "silly.configmap.bad", "default")
        assert (record["outcome"], "apiVersion" in record["summary"]) == ("Failed", True)

    bench.run(scenario)


def test_a_deletion_that_changes_nothing_is_not_waited_for(bench: Bench) -> None:
    tries: Counter[str] = Counter()

    @controller(ConfigMap)
    def insisting(one: Object, world: Snapshot) -> Iterator[Intent]:
        """Asks again and again."""
        if one.name == "held":
            tries["held"] += 1
            yield Delete(one, because="it has to go")
            yield RequeueAfter(10, because="it may be there still")

    async def scenario(bench: Bench) -> None:
        meta = {"name": "held", "namespace": "default", "finalizers": ["example.io/wait"]}
        await bench.api.create(ConfigMap, {"metadata": meta})
        bench.manage([insisting])
        await bench.settle(100)
        assert tries["held"] > 5

    bench.run(scenario)


class Slow:
    """A way to the server that takes its time to tell what is on record."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def request(self, call: ClientRequest) -> ClientResponse:
        if call.method == "GET" and call.path == Decision.path():
            await asyncio.sleep(3)
        return await self._transport.request(call)

    def stream(self, call: ClientRequest) -> AbstractAsyncContextManager[ResponseStreamReader]:
        return self._transport.stream(call)


def test_since_when_something_waits_is_known_to_the_next_process(bench: Bench) -> None:
    @controller(ConfigMap)
    def patient(one: Object, world: Snapshot) -> Iterator[Intent]:
        """Waits for ever."""
        if one.name == "a":
            yield Wait("Never", because="it is not time")

    async def scenario(bench: Bench) -> None:
        await bench.api.create(ConfigMap, {"metadata": {"name": "a", "namespace": "default"}})
        bench.manage([patient])
        await bench.settle(100)
        before = await bench.api.get(Decision, "patient.configmap.a", "default")
        slow = Api(Slow(bench.server.transport("next")), Random(1), manager="next")
        bench.manage([patient], api=slow)
        await bench.settle(100)
        assert await bench.api.get(Decision, "patient.configmap.a", "default") == before

    bench.run(scenario)
