"""The contracts of pyproject.toml that DESIGN promises: each is seen to fail when a module breaks it."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
SOURCE: Final = ROOT / "src" / "pilothouse"
CONTRACTS: Final = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]

DOWNWARD: Final = "Imports go downward only"
THROUGH_THE_API: Final = "Components meet only through the API"
DECIDES_NOTHING: Final = "The API server decides nothing"
STORAGE: Final = "Storage and discovery know no verbs, users or strategies"
DRIVERS: Final = "Pilot drivers don't know each other"
NO_IO: Final = "The nouns and their grammar do no I/O"

VIOLATIONS: Final = [
    (THROUGH_THE_API, "client", "pilothouse.store.interface"),
    (THROUGH_THE_API, "runtime", "pilothouse.store.interface"),
    (THROUGH_THE_API, "controllers", "pilothouse.store.interface"),
    (THROUGH_THE_API, "controllers.pilots", "pilothouse.apiserver.storage.watch_cache"),
    (THROUGH_THE_API, "node.volumes", "pilothouse.store.interface"),
    (THROUGH_THE_API, "pilot.drivers.elasticsearch", "pilothouse.apiserver.storage.watch_cache"),
    (THROUGH_THE_API, "diagnosis", "pilothouse.store.interface"),
    (DECIDES_NOTHING, "apiserver.registry", "pilothouse.runtime.intents"),
    (DECIDES_NOTHING, "apiserver.authentication", "pilothouse.client.api"),
    (STORAGE, "apiserver.storage", "pilothouse.apiserver.endpoints.get"),
    (STORAGE, "apiserver.discovery", "pilothouse.apiserver.registry.strategy"),
    (DRIVERS, "pilot.drivers.elasticsearch", "pilothouse.pilot.drivers.redis"),
    (DOWNWARD, "controllers", "pilothouse.node.agent"),
    (DOWNWARD, "meta", "pilothouse.api.objects"),
    (NO_IO, "api", "socket"),
]


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What lint-imports says of each contract, in a copy of the source with a module for each violation."""
    folder = tmp_path_factory.mktemp("contracts")
    shutil.copytree(SOURCE, folder / "pilothouse", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    for number, (_, package, target) in enumerate(VIOLATIONS):
        module = folder.joinpath("pilothouse", *package.split("."), f"violation_{number}.py")
        module.write_text(f"import {target}\n")
    lint = Path(sys.executable).with_name("lint-imports")
    run = subprocess.run([lint, "--no-logo", "--no-cache"], cwd=folder, capture_output=True, text=True)
    assert run.returncode == 1, run.stdout + run.stderr
    reports = run.stdout.split("Broken contracts")[1]
    names = "|".join(re.escape(contract["name"]) for contract in CONTRACTS)
    parts = re.split(rf"^({names})$", reports, flags=re.M)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


@pytest.mark.parametrize(
    ("number", "contract", "package", "target"),
    [(number, *violation) for number, violation in enumerate(VIOLATIONS)],
    ids=[f"{package}-{target}" for _, package, target in VIOLATIONS],
)
def test_an_import_that_a_contract_forbids_is_found(
    broken: dict[str, str], number: int, contract: str, package: str, target: str
) -> None:
    assert f"pilothouse.{package}.violation_{number}" in broken[contract]


def test_every_component_is_bound_to_meet_the_others_through_the_api() -> None:
    (bound,) = [contract["source_modules"] for contract in CONTRACTS if contract["name"] == THROUGH_THE_API]
    packages = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    composed = {"cli", "app", "sim", "apiserver"}  # These put components together, or are the API.
    below = {
        "api",
        "store",
        "meta",
        "supervise",
        "pki",
        "aio",
        "base",
    }  # Layers below the store's, or beside it.
    assert {f"pilothouse.{name}" for name in packages - composed - below} == set(bound)
