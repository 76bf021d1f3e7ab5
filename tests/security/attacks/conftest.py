"""What the attackers got, by way. One campaign serves all tests, and all workers of a run."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.security.attacks.campaign import Loot, campaign

WAYS = ("root", "ordinary", "joined")
KINDS = {"root": "root", "joined": "root", "ordinary": "ordinary"}


def _shared_folder(factory: pytest.TempPathFactory) -> Path:
    """Of all workers together."""
    base = factory.getbasetemp()
    return base.parent if base.name.startswith("popen-gw") else base


def _of_one_campaign(kind: str, folder: Path) -> dict[str, Loot] | str:
    """Of the worker that comes first; the others wait for it. A word says why there was none."""
    told = folder / f"attacks-{kind}.json"
    with (folder / f"attacks-{kind}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not told.exists():
            try:
                found: dict[str, Loot] | str = campaign(kind)
            except pytest.skip.Exception as skipped:
                found = str(skipped)
            told.write_text(json.dumps(found))
        result: dict[str, Loot] | str = json.loads(told.read_text())
        return result


Gotten = Callable[[str], dict[str, list[str]]]
"""What an attack got, by attacker; those who got nothing are left out."""


def _gotten(way: str, kind: str, folder: Path) -> Gotten:
    found = _of_one_campaign(kind, folder)
    if isinstance(found, str):
        pytest.skip(found)
    attackers = found[way]

    def of(attack: str) -> dict[str, list[str]]:
        tried = {who: attacks[attack] for who, attacks in attackers.items() if attack in attacks}
        assert tried, f"nobody tried {attack}"
        return {who: got for who, got in tried.items() if got}

    return of


@pytest.fixture(params=WAYS)
def loot(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Gotten:
    """Of pods."""
    return _gotten(request.param, KINDS[request.param], _shared_folder(tmp_path_factory))


@pytest.fixture(params=("root", "ordinary"))
def editors_loot(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Gotten:
    """Of a service account with `edit`. To it a machine that has joined is no other than the first."""
    return _gotten(request.param, request.param, _shared_folder(tmp_path_factory))


@pytest.fixture
def unwalled_loot(tmp_path_factory: pytest.TempPathFactory) -> Gotten:
    """Of a program that is in no pod."""
    return _gotten("unwalled", "root", _shared_folder(tmp_path_factory))
