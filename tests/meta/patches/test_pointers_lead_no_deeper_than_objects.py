"""A JSON pointer with more steps than an object can have levels is refused before anybody follows it."""

from __future__ import annotations

import pytest

from pilothouse.meta.apply.patches import DEEPEST, json_patch
from pilothouse.meta.errors import StatusError


@pytest.mark.parametrize("operation", ["add", "copy", "move", "test"])
def test_such_a_pointer_is_refused(operation: str) -> None:
    deep = "/a" * (DEEPEST + 1)
    patch = [{"op": operation, "path": deep, "from": "/a", "value": 1}]
    with pytest.raises(StatusError, match=f"leads deeper than {DEEPEST} levels"):
        json_patch({"a": {}}, patch)


def test_a_pointer_to_the_deepest_level_is_followed() -> None:
    steps = DEEPEST - 1
    obj: dict[str, object] = {}
    for _ in range(steps):
        obj = {"a": obj}
    patched = json_patch(obj, [{"op": "test", "path": "/a" * steps, "value": {}}])
    assert patched == obj
