"""``decommission`` and ``inService`` say the same thing; a contradiction is refused."""

from __future__ import annotations

import copy

import pytest
from tests.api.navigator.clusters import PILOT, V1ALPHA1, V1BETA1, VERSIONS, Json
from tests.kit.admission import Admission, admit

ANY_VERSION = pytest.mark.parametrize("version", VERSIONS)


def written(version: str, *specs: Json) -> Admission:
    """The outcome of one write after the other."""
    found = admit(PILOT[version], {"spec": specs[0]})
    for spec in specs[1:]:
        assert found.problems == []
        found = admit(PILOT[version], {**copy.deepcopy(found.obj), "spec": spec}, found.obj)
    return found


@ANY_VERSION
@pytest.mark.parametrize("in_service", [True, False])
def test_in_service_alone_sets_decommission(version: str, in_service: bool) -> None:
    found = written(version, {"inService": in_service})
    assert found.problems == []
    assert found.obj["spec"] == {"inService": in_service, "decommission": not in_service}


@ANY_VERSION
@pytest.mark.parametrize("word", [True, False])
def test_a_contradiction_is_refused(version: str, word: bool) -> None:
    found = written(version, {"inService": word, "decommission": word})
    assert found.paths == ["spec.inService"]
    assert "decommission" in str(found.problems[0])


@ANY_VERSION
def test_a_pilot_may_say_neither(version: str) -> None:
    found = admit(PILOT[version], {})
    assert (found.problems, found.obj.get("spec")) == ([], None)


@ANY_VERSION
def test_when_one_word_of_two_is_changed_the_other_follows(version: str) -> None:
    both = {"inService": True, "decommission": False}
    assert written(version, both, {"inService": True, "decommission": True}).obj["spec"] == {
        "inService": False,
        "decommission": True,
    }
    assert written(version, both, {"inService": False, "decommission": False}).obj["spec"] == {
        "inService": False,
        "decommission": True,
    }


@ANY_VERSION
def test_a_word_that_is_added_does_not_overrule_the_one_that_is_there(version: str) -> None:
    assert written(version, {"decommission": True}, {"decommission": True, "inService": True}).paths == [
        "spec.inService"
    ]


@ANY_VERSION
@pytest.mark.parametrize(
    ("condition", "path"),
    [
        ({"type": "Ready", "status": True}, "status.conditions[0].status"),
        ({"type": "Ready", "status": "Yes"}, "status.conditions[0].status"),
        ({"type": "", "status": "True"}, "status.conditions[0].type"),
        (
            {"type": "Ready", "status": "True", "lastTransitionTime": "2017-10-01T19:00:00+00"},
            "status.conditions[0].lastTransitionTime",
        ),
    ],
)
def test_conditions_are_held_to_their_form(version: str, condition: Json, path: str) -> None:
    assert admit(PILOT[version], {"status": {"conditions": [condition]}}).paths == [path]


def test_configuration_travels_in_the_spec_and_its_hash_in_the_status() -> None:
    found = admit(
        PILOT[V1BETA1],
        {
            "spec": {
                "application": "elasticsearch",
                "configuration": {
                    "version": "8.17.0",
                    "settings": {"action.destructive_requires_name": True},
                    "files": {"log4j2.properties": "status = error"},
                },
            },
            "status": {"configuration": {"generation": 3, "hash": "abc"}, "phase": "Running"},
        },
    )
    assert (found.problems, found.unknown) == ([], [])


@pytest.mark.parametrize("name", ["../escape", "a/b", "..", ""])
def test_a_configuration_file_stays_in_its_folder(name: str) -> None:
    found = admit(PILOT[V1BETA1], {"spec": {"configuration": {"files": {name: ""}}}})
    assert found.paths == [f"spec.configuration.files[{name}]"]


def test_what_only_the_hub_has_is_unknown_in_v1alpha1() -> None:
    found = admit(PILOT[V1ALPHA1], {"spec": {"application": "redis"}})
    assert found.unknown == ["spec.application"]
