"""A pod that does not become ready on the tier to which its volume was moved has it back without a hand."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import msgspec
import pytest

from pilothouse.api.attributes_classes import current_class
from pilothouse.api.kind_names import (
    ApplicationAction,
    PersistentVolumeClaim,
    Pod,
    StoragePool,
)
from pilothouse.api.openstorage.actions import MOVE, REBALANCE_POOL
from pilothouse.client.api import Api
from pilothouse.sim.fleet import UserAction
from pilothouse.sim.loop import LoopClock
from pilothouse.sim.scenarios.fired_actions import fire, fire_on_claim
from pilothouse.sim.scenarios.user_actions import SPACE, Do
from pilothouse.sim.scenarios.volume_moves import MOVES, begin, model
from pilothouse.sim.simulated_server import SimulatedServer
from pilothouse.sim.simulation import simulate_with
from pilothouse.sim.tiered_volumes import TieredVolumes

MOVE_IT = fire_on_claim("a-move", "data-db-0", MOVE, tier="fast")
REBALANCE = fire(
    "a-move",
    StoragePool,
    "n0-default",
    REBALANCE_POOL,
    {"moves": f"{SPACE}/data-db-0=fast,{SPACE}/data-db-1=fast"},
)


@pytest.mark.parametrize("fired", [MOVE_IT, REBALANCE], ids=["a move", "a rebalance"])
def test_the_pod_is_restarted_and_the_action_says_why(fired: Do) -> None:
    seen: list[TieredVolumes] = []

    def users(rng: Random) -> Sequence[UserAction]:
        return [
            *begin(),
            UserAction(20, "pods are not ready on fast", model(unready="fast")),
            UserAction(1, "act", fired),
            UserAction(150, "look", lambda api: api.list(Pod, SPACE)),
        ]

    async def run(server: SimulatedServer, clock: LoopClock, rng: Random) -> None:
        seen.append(TieredVolumes(server.api("volumes"), clock, rng, namespace=SPACE))
        await seen[-1].run()

    async def settled(api: Api) -> str:
        action = await api.get(ApplicationAction, "a-move", SPACE)
        condition = action.condition("Complete") or {}
        ended = (action.status.get("phase"), condition.get("reason"))
        if ended != ("Failed", "Returned") or "not ready in time" not in str(condition.get("message")):
            return f"the action is {ended}: {condition.get('message')}"
        claims = (await api.list(PersistentVolumeClaim, SPACE)).objects
        if {current_class(claim) for claim in claims} != {"silver"}:
            return f"the claims have the classes {[current_class(claim) for claim in claims]}"
        pods = (await api.list(Pod, SPACE)).objects
        return "" if all(pod.is_true("Ready") for pod in pods) else "a pod is not ready"

    simulate_with(msgspec.structs.replace(MOVES, users=users, settled=settled, companion=run))
    (volumes,) = seen
    assert volumes.restarted_by_hand == []
    assert [volume.tier for volume in volumes.volumes.values()] == ["default", "default"]
