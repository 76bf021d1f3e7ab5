"""A watch that measures objects adds them to the queues of its controllers, which decide with its readings."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping

from tests.runtime.conftest import Bench

from pilothouse.api.kind_names import ConfigMap, KindName, Secret
from pilothouse.api.objects import Object
from pilothouse.base.clock import Clock
from pilothouse.runtime.controller import Controller, controller
from pilothouse.runtime.intents import Intent, PatchObject
from pilothouse.runtime.sampled_watch import Enqueue, SampledWatch, SubscribableCache
from pilothouse.runtime.snapshot import Snapshot


class Thermometer:
    """Measures each ConfigMap once; nothing in the API changes by that."""

    made = 0

    def __init__(self, clock: Clock) -> None:
        type(self).made += 1
        self.readings: dict[str, int] = {}
        self.idle = False

    async def run(self, caches: Mapping[KindName, SubscribableCache], enqueue: Enqueue) -> None:
        await asyncio.sleep(0.2)
        for one in caches[ConfigMap].list("default"):
            self.readings[one.name] = 40
            enqueue(ConfigMap, one.namespace, one.name)
        self.idle = True
        await asyncio.get_running_loop().create_future()


def thermometer(clock: Clock) -> SampledWatch:
    return Thermometer(clock)


def measured(name: str) -> Controller:
    @controller(ConfigMap, reads=Secret, name=name, sampled=thermometer)
    def write_reading(seen: Object, world: Snapshot) -> Iterator[Intent]:
        assert isinstance(world.readings, dict)
        degrees = world.readings.get(seen.name)
        if degrees is not None and name not in seen.at("data", default={}):
            yield PatchObject(seen, {"data": {name: str(degrees)}}, because="it was measured")

    return write_reading


def test_what_is_measured_is_decided_about(bench: Bench) -> None:
    async def scenario(bench: Bench) -> None:
        tree = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "room", "namespace": "default"}}
        await bench.api.create(ConfigMap, tree)
        Thermometer.made = 0
        bench.manage([measured("one"), measured("two")])
        await bench.settle()
        room = await bench.api.get(ConfigMap, "room", "default")
        assert room["data"] == {"one": "40", "two": "40"}
        assert Thermometer.made == 1, "controllers that name the same watch share it"

    bench.run(scenario)
