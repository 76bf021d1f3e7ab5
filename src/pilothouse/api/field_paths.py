"""Fields of objects by path, as people write them.

    value_at(cluster.tree, "spec.nodePools[data].persistence.size")         # "10Gi"
    merge_patch(cluster.tree, "spec.nodePools[data].persistence.size", "15Gi")

``[data]`` is the element of a list whose ``name`` is that.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pilothouse.api.objects import Tree

_STEP: Final = re.compile(r"([A-Za-z][A-Za-z0-9]*)(?:\[([^\]]+)\])?")


def value_at(tree: Mapping[str, Any], path: str) -> Any:
    """None if there is no such field."""
    found: Any = tree
    for field, element in _steps(path):
        found = found.get(field) if isinstance(found, Mapping) else None
        if element:
            found = _element(found, element)
    return found


def merge_patch(tree: Mapping[str, Any], path: str, value: Any) -> Tree:
    """The merge patch that sets a field. A list is replaced as a whole, so the tree has to be the object's
    version that is patched."""
    return _patched(tree, _steps(path), value)


def _patched(tree: Any, steps: Sequence[tuple[str, str]], value: Any) -> Tree:
    (field, element), rest = steps[0], steps[1:]
    below = tree.get(field) if isinstance(tree, Mapping) else None
    if not element:
        return {field: _patched(below, rest, value) if rest else value}
    patched = [
        _with(each, rest, value) if isinstance(each, Mapping) and each.get("name") == element else each
        for each in below or ()
    ]
    return {field: patched}


def _with(tree: Mapping[str, Any], steps: Sequence[tuple[str, str]], value: Any) -> Tree:
    """The whole tree, with a field set."""
    (field, element), rest = steps[0], steps[1:]
    if element:
        return {**tree, **_patched(tree, steps, value)}
    return {**tree, field: _with(tree.get(field) or {}, rest, value) if rest else value}


def _element(found: Any, name: str) -> Any:
    listed = found if isinstance(found, Sequence) and not isinstance(found, str) else ()
    return next((each for each in listed if isinstance(each, Mapping) and each.get("name") == name), None)


def _steps(path: str) -> list[tuple[str, str]]:
    """Raises ``ValueError``."""
    steps = []
    position = 0
    while position <= len(path):
        match = _STEP.match(path, position)
        if match is None or path[match.end() : match.end() + 1] not in ("", "."):
            raise ValueError(f"{path!r} is not the path of a field")
        steps.append((match[1], match[2] or ""))
        position = match.end() + 1
    return steps
