"""What the attackers got, by way. One campaign serves all tests, and all workers of a run."""

from __future__ import annotations

import fcntl
import json
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.security.attacks.campaign import Loot, campaign

WAYS = ("root", "ordinary", "joined")
KINDS = {"root": "root", "joined": "root", "ordinary": "ordinary"}


def _shared_folder(factory: pytest.TempPathFactory) -> Path:
    """Of all workers together."""
    base = factory.getbasetemp()
    return base.parent if base.name.startswith("popen-gw") else base


def _of_one_campaign(kind: str, folder: Path) -> dict[str, Loot]:
    """Of the worker that comes first; the others wait for it, and share its failure too."""
    told = folder / f"attacks-{kind}.json"
    with (folder / f"attacks-{kind}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not told.exists():
            outcome: dict[str, Any] = {"failed": "the campaign was interrupted"}
            try:
                outcome = {"loot": campaign(kind)}
            except pytest.skip.Exception as skipped:
                outcome = {"skipped": str(skipped)}
            except Exception:
                outcome = {"failed": traceback.format_exc()}
                raise
            finally:
                told.write_text(json.dumps(outcome))
    found: dict[str, Any] = json.loads(told.read_text())
    if "skipped" in found:
        pytest.skip(found["skipped"])
    if "failed" in found:
        pytest.fail(found["failed"], pytrace=False)
    loot: dict[str, Loot] = found["loot"]
    return loot


Gotten = Callable[[str], dict[str, list[str]]]
"""What an attack got, by attacker; those who got nothing are left out."""


def _gotten(way: str, kind: str, folder: Path) -> Gotten:
    attackers = _of_one_campaign(kind, folder)[way]

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
