"""What a delete does to an object, by its finalizers, its grace and the policy asked for."""

from __future__ import annotations

from typing import Any

import pytest

from pilothouse.apiserver.endpoints import object_metadata
from pilothouse.apiserver.endpoints.write_options import ParsedDeleteOptions
from pilothouse.apiserver.storage.objects import REMOVE
from pilothouse.meta.errors import StatusError
from pilothouse.meta.kind import Kind, Object
from pilothouse.meta.schema.model import ANY

NOW = 1_700_000_000.0
DATABASE = Kind(group="nav.example.io", version="v1", name="Database", plural="databases", schema=ANY)


def live(**metadata: Any) -> Object:
    defaults = {"name": "a", "namespace": "t", "uid": "u-1", "resourceVersion": "7", "generation": 3}
    return {"apiVersion": "nav.example.io/v1", "kind": "Database", "metadata": {**defaults, **metadata}}


def deleted(obj: Object, kind: Kind = DATABASE, **options: Any) -> Any:
    return object_metadata.deletion(kind, ParsedDeleteOptions(**options), NOW)(obj)


def test_without_finalizers_it_is_gone() -> None:
    assert deleted(live()) is REMOVE


def test_a_finalizer_keeps_it_marked() -> None:
    metadata = deleted(live(finalizers=["x/y"]))["metadata"]
    assert metadata["deletionTimestamp"] == "2023-11-14T22:13:20Z"
    assert metadata["deletionGracePeriodSeconds"] == 0
    assert metadata["generation"] == 4


def test_a_second_delete_changes_nothing() -> None:
    once = deleted(live(finalizers=["x/y"]))
    assert deleted(once) == once


@pytest.mark.parametrize(
    ("policy", "expected"),
    [("Foreground", ["x/y", "foregroundDeletion"]), ("Orphan", ["x/y", "orphan"]), ("Background", ["x/y"])],
)
def test_the_policy_sets_its_finalizer(policy: str, expected: list[str]) -> None:
    assert deleted(live(finalizers=["x/y"]), propagation=policy)["metadata"]["finalizers"] == expected


def test_background_takes_back_an_earlier_policy() -> None:
    assert deleted(live(finalizers=["orphan"]), propagation="Background") is REMOVE


@pytest.mark.parametrize("wrong", [{"uid": "u-2"}, {"revision": "6"}])
def test_a_precondition_that_fails_is_a_409(wrong: dict[str, Any]) -> None:
    with pytest.raises(StatusError) as caught:
        deleted(live(), **wrong)
    assert caught.value.code == 409


def patient(obj: Object, asked: int | None) -> int:
    return 30 if asked is None else asked


GRACEFUL = Kind(group="", version="v1", name="Pod", plural="pods", schema=ANY, grace=patient)


def test_grace_lets_it_live_until_its_time() -> None:
    metadata = deleted(live(), GRACEFUL)["metadata"]
    assert metadata["deletionTimestamp"] == "2023-11-14T22:13:50Z"
    assert metadata["deletionGracePeriodSeconds"] == 30


def test_grace_can_be_shortened_but_not_prolonged() -> None:
    going = deleted(live(), GRACEFUL, grace=20)
    assert deleted(going, GRACEFUL, grace=40) == going
    assert deleted(going, GRACEFUL, grace=5)["metadata"]["deletionGracePeriodSeconds"] == 5
    assert deleted(going, GRACEFUL, grace=0) is REMOVE


def test_an_update_that_drops_the_last_finalizer_ends_it() -> None:
    going = deleted(live(finalizers=["x/y"]))
    released = {**going, "metadata": {**going["metadata"], "finalizers": []}}
    assert object_metadata.ends(DATABASE, released, going)
    assert not object_metadata.ends(DATABASE, going, going)
    assert not object_metadata.ends(DATABASE, live(), live())


def test_no_finalizer_is_added_to_what_is_going() -> None:
    going = deleted(live(finalizers=["x/y"]))
    more = {**going, "metadata": {**going["metadata"], "finalizers": ["x/y", "z/w"]}}
    assert [problem.path for problem in object_metadata.check_finalizers(more, going)] == [
        "metadata.finalizers"
    ]
    assert object_metadata.check_finalizers(more, live()) == []
