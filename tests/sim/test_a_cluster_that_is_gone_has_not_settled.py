"""A scenario's cluster that does not exist in the end is a failure: nothing else looks at what was asked for."""

from __future__ import annotations

import msgspec
import pytest

from pilothouse.sim.scenarios.elasticsearch_cluster import ELASTIC
from pilothouse.sim.scenarios.user_actions import given_space
from pilothouse.sim.simulation import Failed, simulate_with


def test_a_run_in_which_no_cluster_was_created_fails() -> None:
    nothing = msgspec.structs.replace(ELASTIC, users=lambda rng: [given_space()])
    with pytest.raises(Failed, match="there is no cluster demo"):
        simulate_with(nothing, seed=1)
