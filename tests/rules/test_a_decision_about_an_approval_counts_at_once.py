"""What a person decides takes effect when it is written, and not when a value changes."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence

from tests.kit.scheduling_objects import storage_class
from tests.runtime.conftest import Bench

from pilothouse.api.kind_names import (
    ActionApproval,
    AutopilotRule,
    AutopilotRuleObject,
    PersistentVolumeClaim,
    StorageClass,
)
from pilothouse.api.objects import Tree
from pilothouse.base.clock import Clock
from pilothouse.rules.rule_controllers import rule_controllers
from pilothouse.rules.samples import Answer, Sample
from pilothouse.sim.loop import SeededLoop
from pilothouse.sim.metered_volumes import ModelledProvider

RULE: Tree = {
    "apiVersion": AutopilotRule.api_version,
    "kind": AutopilotRule.kind,
    "metadata": {"name": "grow"},
    "spec": {
        "pollInterval": 60,
        "conditions": {"for": 0, "expressions": [{"key": "usage", "operator": "Gt", "values": ["50"]}]},
        "actions": [{"name": "openstorage.io.action.volume/resize"}],
        "enforcement": "approvalRequired",
    },
}
CLAIM: Tree = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "data", "namespace": "default"},
    "spec": {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "fast",
        "volumeName": "pv-1",
        "resources": {"requests": {"storage": "320Mi"}},
    },
}


class SteadyMetrics:
    """The volume is always as full."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def get(self, name: str) -> ModelledProvider:
        return ModelledProvider(self)

    def keep(self, wanted: Mapping[str, Collection[str]]) -> None:
        return None

    async def query(self, expressions: Sequence[str], now: float) -> Mapping[str, Answer]:
        labels = {"namespace": "default", "persistentvolumeclaim": "data"}
        return {text: (Sample(labels, 60.0, self._clock.now()),) for text in expressions}


def test_declined_deleted_and_approved() -> None:
    async def scenario(bench: Bench) -> None:
        api = bench.api
        await api.create(StorageClass, {**storage_class("fast"), "allowVolumeExpansion": True})
        await api.create(PersistentVolumeClaim, CLAIM)
        bound = {"status": {"phase": "Bound", "capacity": {"storage": "320Mi"}}}
        await api.patch(PersistentVolumeClaim, "data", "default", bound, subresource="status")
        bench.manage(rule_controllers(SteadyMetrics(bench.clock)))
        await api.create(AutopilotRule, RULE)

        async def state() -> str:
            (found,) = (await api.list(AutopilotRuleObject, "default")).objects
            return str(found.status["state"])

        async def decide(decision: str) -> None:
            (found,) = (await api.list(ActionApproval, "default")).objects
            spec = {"spec": {"approvalState": decision}}
            await api.patch(ActionApproval, found.name, "default", spec)

        await asyncio.sleep(130)
        assert await state() == "ActionAwaitingApproval"
        await asyncio.sleep(5)
        await decide("declined")
        await asyncio.sleep(5)
        assert await state() == "ActionsDeclined"
        (found,) = (await api.list(ActionApproval, "default")).objects
        await api.delete(ActionApproval, found.name, "default")
        await asyncio.sleep(5)
        assert await state() == "ActionAwaitingApproval"
        await decide("approved")
        await asyncio.sleep(5)
        assert await state() == "ActiveActionsInProgress"

    with SeededLoop(1) as loop:
        Bench(loop).run(scenario)
