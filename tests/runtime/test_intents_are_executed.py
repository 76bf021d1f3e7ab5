"""The engine on a real server: what is decided is done once, seen before the next decision, recorded, retried."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator

from tests.runtime.conftest import Bench

from pilothouse.api.kind_names import ConfigMap, CoreEvent, Decision, Namespace, Pod, Secret
from pilothouse.api.objects import Object, Tree, owner_reference
from pilothouse.runtime.controller import controller
from pilothouse.runtime.intents import Create, Delete, Intent, PatchObject, RecordEvent, RequeueAfter, Wait
from pilothouse.runtime.snapshot import Snapshot


def a_map(name: str, **data: str) -> Tree:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default"},
        "data": data,
    }


@controller(ConfigMap, owns=Secret)
def keepers(one: Object, world: Snapshot) -> Iterator[Intent]:
    """Each config map has as many secrets as it says."""
    wanted = int(one.at("data", "secrets", default="0"))
    there = world.owned(Secret, one)
    for number in range(len(there), wanted):
        yield Create(
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {
                    "generateName": f"{one.name}-",
                    "namespace": one.namespace,
                    "ownerReferences": [owner_reference(one)],
                },
            },
            because=f"secret {number + 1} of {wanted} is missing",
            event="SecretMade",
        )
    for surplus in there[wanted:]:
        yield Delete(surplus, because=f"{wanted} are enough")


def test_what_is_decided_is_done_once_though_names_are_the_servers(bench: Bench) -> None:
    async def scenario(bench: Bench) -> None:
        bench.manage([keepers])
        await bench.api.create(ConfigMap, a_map("a", secrets="3"))
        await bench.settle()
        assert len((await bench.api.list(Secret)).objects) == 3
        await bench.api.patch(ConfigMap, "a", "default", {"data": {"secrets": "1"}})
        await bench.settle()
        assert len((await bench.api.list(Secret)).objects) == 1

    bench.run(scenario)


def test_what_was_there_before_is_decided_about_and_what_goes_comes_again(bench: Bench) -> None:
    async def scenario(bench: Bench) -> None:
        await bench.api.create(ConfigMap, a_map("a", secrets="1"))
        bench.manage([keepers])
        await bench.settle()
        (secret,) = (await bench.api.list(Secret)).objects
        await bench.api.delete(Secret, secret.name, "default")
        await bench.settle()
        (other,) = (await bench.api.list(Secret)).objects
        assert other.uid != secret.uid

    bench.run(scenario)


def test_nothing_is_written_when_nothing_changes(bench: Bench) -> None:
    async def scenario(bench: Bench) -> None:
        await bench.api.create(ConfigMap, a_map("a", secrets="2"))
        manager = bench.manage([keepers])
        await bench.settle(60)
        before = bench.server.revision
        # Less than an hour: then the server forgets the events, which is a write.
        await bench.settle(3500)
        assert bench.server.revision == before
        assert manager.idle

    bench.run(scenario)


def test_an_event_tells_of_an_act_and_counts_repetitions(bench: Bench) -> None:
    @controller(ConfigMap)
    def chatty(one: Object, world: Snapshot) -> Iterator[Intent]:
        """Says the same every minute."""
        yield RecordEvent(one, because="here I am", event="Hello")
        yield RequeueAfter(60, because="it has more to say")

    async def scenario(bench: Bench) -> None:
        bench.manage([chatty])
        await bench.api.create(ConfigMap, a_map("a"))
        await bench.settle(200)
        mine = [one for one in (await bench.api.list(CoreEvent)).objects if one["reason"] == "Hello"]
        assert [
            (one["message"], one["count"], one["type"])
            for one in mine
            if one["involvedObject"]["name"] == "a"
        ] == [("here I am", 4, "Normal")]

    bench.run(scenario)


def test_one_that_breaks_is_recorded_and_tried_again_and_stops_no_other(bench: Bench) -> None:
    tries: Counter[str] = Counter()

    @controller(ConfigMap)
    def fragile(one: Object, world: Snapshot) -> Iterator[Intent]:
        """Can't bear some."""
        tries[one.name] += 1
        if one.at("data", "bad"):
            raise ValueError("what is this?")
        if not one.labels.get("seen"):
            yield PatchObject(one, {"metadata": {"labels": {"seen": "yes"}}}, because="it was seen")

    async def scenario(bench: Bench) -> None:
        bench.manage([fragile])
        await bench.api.create(ConfigMap, a_map("a", bad="yes"))
        await bench.api.create(ConfigMap, a_map("b"))
        await bench.settle(20)
        assert (await bench.api.get(ConfigMap, "b", "default")).labels == {"seen": "yes"}
        assert tries["a"] > 3
        record = await bench.api.get(Decision, "fragile.configmap.a", "default")
        assert record["outcome"] == "Failed"
        assert "what is this?" in record["summary"]
        await bench.api.patch(ConfigMap, "a", "default", {"data": {"bad": None}})
        await bench.settle(20)
        record = await bench.api.get(Decision, "fragile.configmap.a", "default")
        assert record["outcome"] == "Done"

    bench.run(scenario)


def test_a_refusal_is_recorded_with_the_servers_words_and_tried_again_later_and_later(bench: Bench) -> None:
    asked: list[float] = []

    @controller(ConfigMap)
    def clumsy(one: Object, world: Snapshot) -> Iterator[Intent]:
        """Asks for what can't be."""
        if one.name == "a":
            asked.append(world.now)
            yield Create(
                {
                    "apiVersion": "v1",
                    "kind": "Secret",
                    "metadata": {"name": "NOT A NAME", "namespace": "default"},
                },
                because="it wants one",
            )

    async def scenario(bench: Bench) -> None:
        bench.manage([clumsy])
        await bench.api.create(ConfigMap, a_map("a"))
        await bench.settle(100)
        record = await bench.api.get(Decision, "clumsy.configmap.a", "default")
        assert record["outcome"] == "Failed"
        assert "NOT A NAME" in record["intents"][0]["message"]
        (event,) = (await bench.api.list(CoreEvent)).objects
        assert (event["type"], event["reason"]) == ("Warning", "FailedCreate")
        assert event["message"].startswith("create Secret NOT A NAME in ConfigMap a failed error: ")
        pauses = [later - earlier for earlier, later in itertools.pairwise(asked)]
        assert len(pauses) > 5
        assert all(later > earlier for earlier, later in itertools.pairwise(pauses))

    bench.run(scenario)


def test_what_waits_says_so_and_since_when(bench: Bench) -> None:
    @controller(Pod, reads=ConfigMap, condition="Reconciled")
    def patient(one: Object, world: Snapshot) -> Iterator[Intent]:
        """Waits for a node."""
        if "nodeName" not in one.spec:
            yield Wait("NoNode", because="no node has room", remedy="add a node")

    async def scenario(bench: Bench) -> None:
        bench.manage([patient])
        pod = {
            "metadata": {"name": "p", "namespace": "default"},
            "spec": {"containers": [{"name": "c", "image": "x"}]},
        }
        await bench.api.create(Pod, pod)
        await bench.settle(30)
        condition = (await bench.api.get(Pod, "p", "default")).condition("Reconciled")
        assert condition is not None
        assert (condition["status"], condition["reason"]) == ("False", "NoNode")
        assert "add a node" in condition["message"]
        record = await bench.api.get(Decision, "patient.pod.p", "default")
        assert record["outcome"] == "Waiting"
        since = record["waiting"]["since"]
        await bench.settle(300)
        await bench.api.patch(Pod, "p", "default", {"metadata": {"labels": {"a": "b"}}})
        await bench.settle(30)
        record = await bench.api.get(Decision, "patient.pod.p", "default")
        assert record["waiting"] == {**record["waiting"], "since": since, "remedy": "add a node"}

    bench.run(scenario)


def test_the_record_goes_with_its_object_by_its_owner_reference(bench: Bench) -> None:
    async def scenario(bench: Bench) -> None:
        bench.manage([keepers])
        made = await bench.api.create(ConfigMap, a_map("a", secrets="1"))
        await bench.settle()
        record = await bench.api.get(Decision, "keepers.configmap.a", "default")
        assert [owner["uid"] for owner in record.owners] == [made.uid]
        assert record["controller"] == "keepers"
        assert record["intents"][0] == {
            "verb": "Create",
            "because": "secret 1 of 1 is missing",
            "outcome": "Done",
            "object": record["intents"][0]["object"],
        }

    bench.run(scenario)


def test_the_record_names_nothing_of_other_namespaces(bench: Bench) -> None:
    @controller(ConfigMap, reads=(Secret, Namespace))
    def curious_everywhere(one: Object, world: Snapshot) -> Iterator[Intent]:
        """Looks around."""
        world.all(Secret)
        world.all(Namespace)
        yield Wait("Looking", because="it looks around")

    async def scenario(bench: Bench) -> None:
        bench.manage([curious_everywhere])
        await bench.api.create(Namespace, {"metadata": {"name": "other"}})
        for namespace in ("default", "other"):
            await bench.api.create(Secret, {"metadata": {"name": f"of-{namespace}", "namespace": namespace}})
        await bench.api.create(ConfigMap, a_map("a"))
        await bench.settle(30)
        record = await bench.api.get(Decision, "curious-everywhere.configmap.a", "default")
        assert [each["name"] for each in record["read"]] == ["of-default"]

    bench.run(scenario)


def test_a_controller_that_looks_at_what_it_has_not_declared_is_told(bench: Bench) -> None:
    @controller(ConfigMap)
    def curious(one: Object, world: Snapshot) -> Iterator[Intent]:
        """Looks too far."""
        world.all(Secret)
        yield from ()

    async def scenario(bench: Bench) -> None:
        bench.manage([curious])
        await bench.api.create(ConfigMap, a_map("a"))
        await bench.settle()
        record = await bench.api.get(Decision, "curious.configmap.a", "default")
        assert "Secret is not among the kinds" in record["summary"]

    bench.run(scenario)
