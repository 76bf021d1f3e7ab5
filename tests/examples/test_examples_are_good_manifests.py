"""Every example is accepted whole: nothing refused, nothing unknown, nothing left out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.kit.admission import admit
from tests.kit.manifests import load

from pilothouse.api.pod_security.evaluation import evaluate
from pilothouse.api.pod_security.policy import RESTRICTED, LevelVersion
from pilothouse.api.registry import resources
from pilothouse.apiserver.discovery.catalog import KindCatalog

FOLDER = Path(__file__).parent.parent.parent / "examples"
NO_MANIFESTS = FOLDER / "autopilot"
"""What commands about rules read, and no server: see tests/cli/test_rules_are_tested_before_they_act.py."""
FILES = sorted(path for path in FOLDER.rglob("*.yaml") if path.parent != NO_MANIFESTS)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_it_is_accepted_whole(path: Path) -> None:
    catalog = KindCatalog(resources())
    objects = load(path)
    assert objects
    for obj in objects:
        served = catalog.of_kind(obj["apiVersion"], obj["kind"])
        assert served is not None
        found = admit(served.kind, obj)
        assert (found.problems, found.unknown) == ([], [])


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_it_opens_with_what_it_is_for(path: Path) -> None:
    assert path.read_text().startswith("# ")


def test_there_is_one_for_each_kind_that_a_person_writes() -> None:
    kinds = {obj["kind"] for path in FILES for obj in load(path)}
    assert kinds >= {
        "ElasticsearchCluster",
        "CassandraCluster",
        "Pilot",
        "Plan",
        "UpdateConfig",
        "AutopilotRule",
        "ApplicationPolicy",
    }


def pod_specs(obj: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """What pods would be made from, wherever it is in an object."""
    for value in obj.values():
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, dict):
                if "containers" in each:
                    yield each
                yield from pod_specs(each)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_its_pods_keep_to_the_restricted_level(path: Path) -> None:
    for obj in load(path):
        for spec in pod_specs(obj):
            found = evaluate(LevelVersion(RESTRICTED), {}, spec)
            assert found.detail == ""
