from __future__ import annotations

import pytest
from bench.api import costs


def test_costs_measures_every_load_unless_some_are_named() -> None:
    assert costs.arguments([]).loads == list(costs.LOADS)
    assert costs.arguments(["get", "patch"]).loads == ["get", "patch"]
    with pytest.raises(SystemExit):
        costs.arguments(["zork"])
