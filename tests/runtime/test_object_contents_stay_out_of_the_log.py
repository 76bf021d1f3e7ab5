"""What intents write may be a Secret's: a log says what is done to whom, and why, and never with what."""

from __future__ import annotations

import base64

import pytest

from pilothouse.api.kind_names import Secret
from pilothouse.api.objects import Object, Tree
from pilothouse.runtime.intents import (
    Apply,
    Bind,
    Create,
    Delete,
    DeleteAll,
    Evict,
    Intent,
    PatchObject,
    RecordEvent,
    RequeueAfter,
    SetStatus,
    Update,
    Wait,
)

PASSWORD = base64.b64encode(b"sesame").decode()
WHY = "the cluster has no password yet"
TREE: Tree = {
    "apiVersion": "v1",
    "kind": "Secret",
    "metadata": {"name": "es-demo-users", "namespace": "shop"},
    "data": {"elastic": PASSWORD},
}
SEEN = Object(Secret, TREE)
ABOUT_IT: list[Intent] = [
    Create(TREE, because=WHY),
    Apply(TREE, because=WHY),
    Update(SEEN, TREE, because=WHY),
    PatchObject(SEEN, {"data": TREE["data"]}, because=WHY),
    SetStatus(SEEN, TREE, because=WHY),
    Delete(SEEN, because=WHY),
    Evict(SEEN, because=WHY),
    Bind(SEEN, "n1", because=WHY),
]
OTHERS: list[Intent] = [
    DeleteAll(Secret, "shop", because=WHY),
    RecordEvent(SEEN, because=WHY),
    Wait("NoPassword", because=WHY),
    RequeueAfter(1.0, because=WHY),
]


def test_every_intent_is_tried_here() -> None:
    assert {type(each) for each in (*ABOUT_IT, *OTHERS)} == set(Intent.__subclasses__())


@pytest.mark.parametrize("intent", [*ABOUT_IT, *OTHERS], ids=lambda intent: intent.verb)
def test_contents_are_not_told(intent: Intent) -> None:
    for told in (repr(intent), str(intent), f"{[intent]}"):
        assert PASSWORD not in told
        assert intent.verb in told
        assert WHY in told


@pytest.mark.parametrize("intent", ABOUT_IT, ids=lambda intent: intent.verb)
def test_it_is_told_whom_it_is_about(intent: Intent) -> None:
    assert repr(intent) == f"<{intent.verb} Secret shop/es-demo-users: {WHY}>"
