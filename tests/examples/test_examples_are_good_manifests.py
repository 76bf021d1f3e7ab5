"""Every example is accepted whole: nothing refused, nothing unknown, nothing left out."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.kit.admission import admit
from tests.kit.manifests import load

from pilothouse.api.registry import resources
from pilothouse.apiserver.catalog import Catalog

FOLDER = Path(__file__).parent.parent.parent / "examples"
FILES = sorted(FOLDER.rglob("*.yaml"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_it_is_accepted_whole(path: Path) -> None:
    catalog = Catalog(resources())
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
