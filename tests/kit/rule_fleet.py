"""Rules on modelled volumes in virtual time: a real API server, a real manager, metrics of a model.

with RuleFleet() as fleet:
    fleet.create(rule("grow", "usage", "Gt", 50, scalepercentage="50"), claim("data", "8Gi"))
    fleet.fill(data=10)
    fleet.wait(1200)
    fleet.sizes("data")          # ["8Gi", "12Gi", "18Gi", "27Gi"]
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import ExitStack
from random import Random
from typing import Any, Self, TypeVar

import msgspec

from pilothouse.api.kind_names import (
    ApplicationAction,
    AutopilotRule,
    AutopilotRuleObject,
    ConfigMap,
    CoreEvent,
    KindName,
    Namespace,
    Node,
    PersistentVolumeClaim,
    Pod,
    Question,
    StatefulSet,
    StorageClass,
    StoragePool,
)
from pilothouse.api.objects import Object, Tree
from pilothouse.api.openstorage.actions import RESIZE
from pilothouse.client.api import Api
from pilothouse.controllers.application_actions import all_executors
from pilothouse.controllers.garbage_collector import garbage
from pilothouse.rules.ruled_objects import RuleSettings
from pilothouse.sim.fault_schedule import FixedFaults
from pilothouse.sim.fleet import OutsideWorld
from pilothouse.sim.loop import LoopClock, SeededLoop
from pilothouse.sim.metered_volumes import MODEL, MeteredVolumes
from pilothouse.sim.simulated_manager import SimulatedManager
from pilothouse.sim.simulated_server import ObservedWrite, SimulatedServer

SPACE = "db"
_CLASS = "fast"
T = TypeVar("T")


def rule(
    name: str, key: str, operator: str, *values: float, also: Sequence[Tree] = (), **params: str
) -> Tree:
    """A rule as the vendor's tests have it; it is on claims with the label ``case: NAME``. ``also`` are further expressions."""
    first = {"key": key, "operator": operator, "values": [str(value) for value in values]}
    return {
        "apiVersion": AutopilotRule.api_version,
        "kind": AutopilotRule.kind,
        "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": {"case": name}},
            "conditions": {"expressions": [first, *also], "for": 30},
            "pollInterval": 10,
            "actionsCoolDownPeriod": 60,
            "actions": [{"name": RESIZE, "params": params}],
        },
    }


def claim(name: str, size: str, *, case: str = "", namespace: str = SPACE, **labels: str) -> Tree:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": namespace, "labels": {"case": case or name, **labels}},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": _CLASS,
            "resources": {"requests": {"storage": size}},
        },
    }


class RuleFleet:
    """A server and a manager, which run until the end of the context."""

    def __init__(
        self,
        *,
        namespace_labels: dict[str, str] | None = None,
        settings: RuleSettings = RuleSettings(),
        step: float = 2.0,
    ) -> None:
        """``step`` is how often, in seconds, the model looks at its volumes."""
        self._stack = ExitStack()
        self._beside: list[asyncio.Future[None]] = []
        self._labels = namespace_labels or {}
        self._settings = settings
        self._step = step
        self.heard: Callable[[ObservedWrite], None] = lambda _: None
        """Called with every write."""

    def __enter__(self) -> Self:
        self._loop = self._stack.enter_context(SeededLoop(1))
        self.clock = LoopClock(self._loop)
        self.server = SimulatedServer(self.clock, seed=1, heard=lambda write: self.heard(write))
        self.api = self.server.api("user")
        api = self.server.api("volumes")
        self.volumes = MeteredVolumes(
            api, self.clock, Random(1), namespace=SPACE, step=self._step, settings=self._settings
        )
        self._outside = self.outside()
        controllers = (*all_executors(), garbage, *self._outside.controllers)
        self.manager = SimulatedManager("m0", self.server, controllers, self._loop, FixedFaults(()), seed=1)
        self._do(self._begin)
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._do(self._end)
        finally:
            self._stack.close()

    def outside(self) -> OutsideWorld:
        """What rules measure."""
        return self.volumes

    async def _begin(self, api: Api) -> None:
        await self.server.start()
        await api.create(Namespace, {"metadata": {"name": SPACE, "labels": self._labels}})
        grown = {"metadata": {"name": _CLASS}, "provisioner": "example.com/m", "allowVolumeExpansion": True}
        await api.create(StorageClass, grown)
        await api.create(ConfigMap, {"metadata": {"name": MODEL, "namespace": SPACE}, "data": {}})
        self._model: asyncio.Future[None] = asyncio.ensure_future(self._outside.run())
        self.manager.start()

    async def _end(self, api: Api) -> None:
        self.manager.crash()
        await self.manager.ended()
        for one in (running := [self._model, *self._beside]):
            one.cancel()
        ends = await asyncio.gather(*running, return_exceptions=True)
        await self.server.stop()
        for end in ends:
            if isinstance(end, Exception):
                raise end

    def run_beside(self, program: Callable[[Api], Coroutine[Any, Any, None]]) -> None:
        """Run another client of the server until the end of the context."""
        self._beside.append(self._loop.create_task(program(self.server.api("beside"))))

    def _do(self, act: Callable[[Api], Awaitable[T]]) -> T:
        async def whole() -> T:
            return await act(self.api)

        return self._loop.run_until_complete(whole())

    def create(self, *trees: Tree) -> None:
        nouns: dict[str, KindName] = {
            one.kind: one
            for one in (AutopilotRule, Namespace, Node, PersistentVolumeClaim, Pod, StatefulSet, StoragePool)
        }
        for tree in trees:
            self.create_kind(nouns[tree["kind"]], tree)

    def create_kind(self, noun: KindName, tree: Tree) -> Object:
        return self._do(lambda api: api.create(noun, tree))

    def edit(self, name: str, **spec: Any) -> None:
        self._do(lambda api: api.patch(AutopilotRule, name, "", {"spec": spec}))

    def store(self, name: str, **spec: Any) -> None:
        """Edit a rule as a server does that checks nothing."""

        async def store(_: Api) -> None:
            (found,) = [
                one
                for one in (await self.server.store.list("/")).entries
                if one.key.endswith(f"/autopilotrules/{name}")
            ]
            tree = msgspec.json.decode(found.value)
            tree["spec"] |= spec
            tree["metadata"]["generation"] += 1
            await self.server.store.update(found.key, msgspec.json.encode(tree), revision=found.revision)

        self._do(store)

    def model(self, **data: str) -> None:
        """Change what happens outside."""
        self._do(lambda api: api.patch(ConfigMap, MODEL, SPACE, {"data": data}))

    def create_config_map(self, namespace: str, name: str, **data: str) -> None:
        async def create(api: Api) -> None:
            if await api.find(Namespace, namespace) is None:
                await api.create(Namespace, {"metadata": {"name": namespace}})
            await api.create(ConfigMap, {"metadata": {"name": name, "namespace": namespace}, "data": data})

        self._do(create)

    def fill(self, **gibibytes: float) -> None:
        """Put data onto the volumes of these claims; ``_`` stands for a dash."""
        self.model(**{f"data-{name.replace('_', '-')}": str(amount) for name, amount in gibibytes.items()})

    def wait(self, seconds: float) -> None:
        self._do(lambda _: asyncio.sleep(seconds))

    def claim(self, name: str) -> Object:
        return self._do(lambda api: api.get(PersistentVolumeClaim, name, SPACE))

    def objects(self) -> dict[str, Object]:
        """The AutopilotRuleObjects, by rule and claim."""
        found = self._do(lambda api: api.list(AutopilotRuleObject)).objects
        return {f"{one.labels['rule']}/{one.at('status', 'object', 'name')}": one for one in found}

    def state(self, name: str) -> str:
        """Of the claim of this name under the rule of the same name."""
        return str(self.objects()[f"{name}/{name}"].status["state"])

    def size_of(self, name: str) -> str:
        return str(self.claim(name).at("status", "capacity", "storage"))

    def sizes(self, name: str) -> list[str]:
        """The sizes that a claim was to have, and the one that it has."""
        actions = self._do(lambda api: api.list(ApplicationAction, SPACE)).objects
        mine = [one for one in actions if one.at("spec", "object", "name") == name]
        steps = [(one.created, str(one.at("spec", "target", "to"))) for one in mine]
        capacity = self.size_of(name)
        found = [to for _, to in sorted(steps)]
        assert not found or found[-1] == capacity
        return found or [capacity]

    def actions(self) -> list[Object]:
        return list(self._do(lambda api: api.list(ApplicationAction)).objects)

    def list(self, noun: KindName) -> Sequence[Object]:
        return self._do(lambda api: api.list(noun)).objects

    def patch(self, noun: KindName, name: str, fields: Tree, namespace: str = "") -> None:
        self._do(lambda api: api.patch(noun, name, namespace, fields))

    def delete(self, noun: KindName, name: str, namespace: str = SPACE) -> None:
        self._do(lambda api: api.delete(noun, name, namespace))

    def ask(self, kind: str, name: str, namespace: str = SPACE) -> Tree:
        """The answer to a Question about an object."""
        asked = self.ask_later(kind, name, namespace)
        self.wait(1)
        return dict(self._do(lambda api: api.get(Question, asked.name, namespace)).status)

    def ask_later(self, kind: str, name: str, namespace: str = SPACE) -> Object:
        """A Question, which the manager answers in a moment."""
        tree = {
            "apiVersion": Question.api_version,
            "kind": Question.kind,
            "metadata": {"namespace": namespace, "generateName": "test-"},
            "spec": {"about": {"kind": kind, "name": name}},
        }
        return self._do(lambda api: api.create(Question, tree))

    def restart(self, after: float = 0.0) -> None:
        """Kill the manager, and start it again so many seconds later."""
        self.manager.crash()
        self.wait(after)
        self.manager.start()

    def transitions(self, name: str) -> Counter[str]:
        """How often each transition of the rule's only object was recorded."""
        events = self._do(lambda api: api.list(CoreEvent, "default")).objects
        found: Counter[str] = Counter()
        for one in events:
            if one["reason"] == "Transition" and one.at("involvedObject", "name") == name:
                assert one["source"]["component"] == "autopilot"
                found[str(one["message"]).partition(" transition from ")[2]] += int(one["count"])
        return found

    def ready(self, name: str) -> tuple[str, str]:
        """The status and the message of the condition Ready of a rule."""
        found = self._do(lambda api: api.get(AutopilotRule, name)).condition("Ready") or {}
        return str(found.get("status")), str(found.get("message"))

    def reason(self, name: str) -> tuple[str, str]:
        """The status and the reason of the condition Ready of a rule."""
        found = self._do(lambda api: api.get(AutopilotRule, name)).condition("Ready") or {}
        return str(found.get("status")), str(found.get("reason"))

    def request(self, name: str, size: str) -> None:
        """Grow a claim by hand."""
        fields = {"spec": {"resources": {"requests": {"storage": size}}}}
        self._do(lambda api: api.patch(PersistentVolumeClaim, name, SPACE, fields))

    def events(self, reason: str) -> Counter[str]:
        """How often each message was recorded for this reason."""
        found: Counter[str] = Counter()
        for one in self._do(lambda api: api.list(CoreEvent, "default")).objects:
            if one["reason"] == reason:
                found[str(one["message"])] += int(one["count"])
        return found
