"""Histories of applies and updates, with what Kubernetes' own merge library made of each step.

Each history was made up at random and run through that library; the results were written down. Empty and null parts
are left out of the comparison of objects, because we keep an emptied container where the library puts null.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.meta.apply.databases import Databases

from pilothouse.meta.errors import StatusError

HISTORIES: list[list[dict[str, Any]]] = json.loads(
    Path(__file__).with_name("recorded_histories.json").read_text()
)


def filled(value: Any) -> Any:
    if isinstance(value, dict):
        parts = {key: filled(child) for key, child in value.items()}
        return {key: child for key, child in parts.items() if child not in (None, {}, [])}
    return [filled(child) for child in value] if isinstance(value, list) else value


def outcome(db: Databases, step: dict[str, Any]) -> dict[str, Any]:
    spec = json.loads(json.dumps(step["spec"]))
    try:
        if step["verb"] == "apply":
            db.apply(step["manager"], force=step["force"], **spec)
        else:
            db.update(step["manager"], lambda obj: obj.update(spec=spec))
    except StatusError as error:
        found = [(cause.message.split('"')[1], cause.field) for cause in error.causes]
        return {"conflicts": sorted(f"{manager} {field}" for manager, field in found)}
    managers = {entry["manager"]: entry["fieldsV1"] for entry in db.entries}
    return {"live": filled(db.spec), "managers": managers}


@pytest.mark.parametrize("history", HISTORIES, ids=range(len(HISTORIES)))
def test_each_step_ends_as_recorded(history: list[dict[str, Any]]) -> None:
    db = Databases()
    for step in history:
        assert outcome(db, step) == step["then"]
