"""The order of a set of strings differs from process to process; a run must not."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

_RUN = """
import logging, sys
logging.disable(logging.CRITICAL)
from pilothouse.sim.scenarios import SCENARIOS
from pilothouse.sim.simulation import simulate
for name in sys.argv[1:]:
    print(simulate(SCENARIOS[name], seed=5).digest)
"""


def digests(hash_seed: str, names: tuple[str, ...]) -> str:
    ended = subprocess.run(
        [sys.executable, "-c", _RUN, *names],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return ended.stdout


@pytest.mark.parametrize(
    "names", [("sets", "owners", "namespaces"), ("places", "volumes", "house")], ids=" ".join
)
def test_whatever_the_order_of_sets(names: tuple[str, ...]) -> None:
    first = digests("1", names)
    assert len(set(first.split())) == len(names)
    assert digests("2", names) == first
