"""Somebody edits Pilots while their cluster rolls: one node is down at a time nevertheless, and all comes out as the cluster has it."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import msgspec
import pytest

from pilothouse.api.kind_names import Pilot
from pilothouse.api.navigator.configurations import configuration_hash
from pilothouse.sim import simulated_pilots
from pilothouse.sim.fault_schedule import FREQUENT_FAULTS
from pilothouse.sim.fleet import UserAction
from pilothouse.sim.scenarios import SCENARIOS
from pilothouse.sim.scenarios.elasticsearch_cluster import NAME, pools_of, story
from pilothouse.sim.scenarios.user_actions import SPACE, Do
from pilothouse.sim.simulation import Failed, simulate


def meddlers(rng: Random) -> Sequence[UserAction]:
    """A cluster gets a configuration, and some of its Pilots another from somebody who should have left them alone."""
    doing = list(story(pools_of(3), (80, {"config": {"search.max_buckets": 1234}}))(rng))
    for _ in range(4):
        name = f"es-{NAME}-{rng.choice(('data', 'master'))}-{rng.randint(0, 2)}"
        doing.append(
            UserAction(rng.uniform(1, 25), f"edit the Pilot {name}", edited(name, rng.randint(1, 9)))
        )
    return doing


def edited(name: str, value: int) -> Do:
    spec = {"configuration": {"settings": {"x.y": value}}}
    return lambda api: api.patch(Pilot, name, SPACE, {"spec": spec})


SCENARIO = msgspec.structs.replace(SCENARIOS["elastic"], users=meddlers)


@pytest.mark.parametrize("seed", range(3))
def test_one_node_is_down_at_a_time(seed: int) -> None:
    assert simulate(SCENARIO, seed=seed, profile=FREQUENT_FAULTS).writes


def test_else_two_are_down_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pilots that follow whoever edits them."""
    monkeypatch.setattr(simulated_pilots, "in_force", lambda spec, annotations: configuration_hash(spec))
    with pytest.raises(Failed, match="are down at once"):
        simulate(SCENARIO, seed=0, profile=FREQUENT_FAULTS)
