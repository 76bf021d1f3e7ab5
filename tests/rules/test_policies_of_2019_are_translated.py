"""A StoragePolicy is shown as the AutopilotRule that it meant, with what it never honoured."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from pilothouse.rules.storage_policies import PolicyError, translate

POLICY: dict[str, Any] = {
    "kind": "StoragePolicy",
    "metadata": {"name": "volume-resize"},
    "spec": {
        "enforcement": "preferred",
        "object": {
            "type": "openstorage.io.object/volume",
            "matchExpressions": [{"key": "name", "operator": "In", "values": ["pvc-1"]}],
        },
        "conditions": [
            {"key": "usage_percentage", "operator": "gt", "values": ["30"]},
            {"key": "capacity_gb", "operator": "lt", "values": ["2048"]},
        ],
        "action": {"name": "openstorage.io.action/volume.resize", "params": ["--scalefactor", 1.3]},
    },
}


def changed(**fields: Any) -> dict[str, Any]:
    return {**POLICY, "spec": {**copy.deepcopy(POLICY["spec"]), **fields}}


def test_the_policy_of_the_readme() -> None:
    found = translate(POLICY)
    assert found.rule["spec"] == {
        "conditions": {
            "expressions": [
                {
                    "key": "100 * (px_volume_usage_bytes / px_volume_capacity_bytes)",
                    "operator": "Gt",
                    "values": ["30"],
                },
                {"key": "px_volume_capacity_bytes / 1000000000", "operator": "Lt", "values": ["2048"]},
            ]
        },
        "actions": [{"name": "openstorage.io.action.volume/resize", "params": {"scalepercentage": "30"}}],
    }
    assert found.volumes == ("pvc-1",)
    said = "\n".join(found.notes)
    for part in (
        "volumes are named",
        "any one of them was enough",
        "--scalefactor 1.3 was never used",
        "capacity_gb",
    ):
        assert part in said


@pytest.mark.parametrize(
    "kind", ["openstorage.io/object.volume", "openstorage.io.object/volume", "openstorage.io.object.volume"]
)
def test_types_are_taken_in_all_spellings(kind: str) -> None:
    assert translate(changed(object={"type": kind})).volumes == ()


def test_labels_weight_duration_and_raw_queries() -> None:
    found = translate(
        changed(
            weight=3,
            object={"type": "openstorage.io.object.volume", "matchLabels": {"app": "postgres"}},
            conditions=[{"key": "latency_ms", "operator": "eq", "values": ["25", "26"], "duration": "120s"}],
        )
    )
    spec = found.rule["spec"]
    assert spec["selector"] == {"matchLabels": {"app": "postgres"}}
    assert spec["weight"] == 3
    assert spec["conditions"]["for"] == 120
    assert spec["conditions"]["expressions"] == [{"key": "latency_ms", "operator": "In", "values": ["25"]}]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"object": {"type": "openstorage.io.object.node"}}, "spec.object.type: openstorage.io.object.node"),
        ({"object": []}, "spec.object: must be a mapping"),
        ({"conditions": []}, "spec.conditions: there are none"),
        ({"conditions": [{"operator": "gt", "values": ["1"]}]}, "spec.conditions[0].key: is missing"),
        ({"conditions": [{"key": "a", "operator": "ge", "values": ["1"]}]}, "ge is not one of gt, lt, eq"),
        ({"conditions": [{"key": "a", "operator": "gt"}]}, "spec.conditions[0].values: there are none"),
        ({"conditions": ["a"]}, "spec.conditions[0]: must be a mapping"),
        ({"action": {"name": "resize"}}, "spec.action.name: resize is not an action such as"),
        (
            {"action": {"name": "openstorage.io.action.volume/resize", "params": ["--scalefactor", "much"]}},
            "much is not a factor",
        ),
    ],
)
def test_what_means_nothing_is_refused_with_its_path(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(PolicyError) as caught:
        translate(changed(**fields))
    assert message in str(caught.value)
