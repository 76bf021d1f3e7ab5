"""Every complete manifest of the founding documents is accepted, or says exactly what is wrong with it.

Here the kinds answer by themselves; the same manifests can be sent to a server.
"""

from __future__ import annotations

from typing import Any

import pytest
from tests.kit.admission import admit
from tests.kit.seeds import FOLDER, SEEDS, Seed

from pilothouse.api.registry import own_resources
from pilothouse.apiserver.discovery.catalog import KindCatalog
from pilothouse.meta.kind import Kind

AS_THEY_STAND = pytest.mark.parametrize("seed", SEEDS, ids=lambda seed: seed.file)


def kind_of(obj: dict[str, Any]) -> Kind | None:
    served = KindCatalog(own_resources()).of_kind(obj["apiVersion"], obj["kind"])
    return served.kind if served else None


def test_every_manifest_is_tried() -> None:
    assert {path.name for path in FOLDER.iterdir()} == {seed.file for seed in SEEDS}


@AS_THEY_STAND
def test_it_is_accepted_or_says_what_is_wrong(seed: Seed) -> None:
    for obj in seed.objects():
        kind = kind_of(obj)
        assert (kind is not None) == seed.served
        if kind is not None:
            problems = {(problem.path, problem.reason) for problem in admit(kind, obj).problems}
            assert {path for path, _ in problems} == {path for path, _ in seed.problems}
            assert problems >= set(seed.problems)


@AS_THEY_STAND
def test_with_just_the_wrong_words_mended_it_is_accepted_whole(seed: Seed) -> None:
    for obj in seed.mended():
        kind = kind_of(obj)
        assert kind is not None
        found = admit(kind, obj)
        assert found.problems == []
        assert found.unknown == []


def test_a_misspelt_weekday_is_answered_with_the_seven_that_exist() -> None:
    seed = next(seed for seed in SEEDS if seed.file == "update-config.yaml")
    (obj,) = seed.objects()
    kind = kind_of(obj)
    assert kind is not None
    message = "".join(str(problem) for problem in admit(kind, obj).problems if "days" in problem.path)
    assert '"Tuesdsay"' in message
    assert '"Tuesday"' in message


def test_mending_the_kind_alone_leaves_the_misspelt_weekday() -> None:
    seed = next(seed for seed in SEEDS if seed.file == "updater-config.yaml")
    (obj,) = seed.objects()
    obj["kind"] = "UpdateConfig"
    kind = kind_of(obj)
    assert kind is not None
    assert admit(kind, obj).paths == ["spec.upgradeStrategy.periodic.days[0]"]
