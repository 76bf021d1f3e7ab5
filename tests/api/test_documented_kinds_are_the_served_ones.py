"""docs/kinds.md lists the kinds that are served, with their scopes and short names, and the actions that exist."""

from __future__ import annotations

import re
from pathlib import Path

from pilothouse.api.openstorage.actions import ACTIONS
from pilothouse.api.registry import own_resources

PAGE = (Path(__file__).parent.parent.parent / "docs" / "kinds.md").read_text()
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in PAGE.splitlines()
    if line.startswith("|")
]


def test_kinds_scopes_and_short_names() -> None:
    documented = {
        row[0]: (set(re.findall(r"v[0-9]\w*", row[1])), row[2], set(re.findall(r"`(\w+)`", row[3])))
        for row in ROWS
        if len(row) == 5 and "`" in row[1]
    }
    served = {
        resource.stored.name: (
            set(resource.by_version),
            "namespace" if resource.stored.namespaced else "cluster",
            set(resource.stored.short_names),
        )
        for resource in own_resources()
    }
    assert documented == served


def test_actions_and_their_parameters() -> None:
    documented = {
        row[0].strip("`"): set(re.findall(r"`(\w+)`", row[1]))
        for row in ROWS
        if row[0].startswith("`openstorage")
    }
    assert documented == {name: set(action.parameters) for name, action in ACTIONS.items()}
