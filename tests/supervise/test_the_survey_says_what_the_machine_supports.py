"""The survey that a node's condition is made from."""

from __future__ import annotations

import os
from pathlib import Path

from pilothouse.supervise.machine_survey import survey_machine


async def test_a_survey_tells_what_is_possible_and_leaves_nothing(tmp_path: Path) -> None:
    survey = await survey_machine(tmp_path / "survey", "pilothouse-survey")
    assert survey.view.allowed or survey.view.why
    assert survey.users.allowed == (os.geteuid() == 0)
    assert set(survey.limits) == {"cpu", "memory", "pids", "io"}
    assert all(
        each.allowed != bool(each.why) for each in (survey.view, survey.users, *survey.limits.values())
    )
    assert os.listdir(tmp_path) == []


async def test_a_survey_that_was_interrupted_does_not_spoil_the_next(tmp_path: Path) -> None:
    folder = tmp_path / "survey"
    folder.mkdir()
    (folder / "state.json").write_text("{}")
    first = await survey_machine(folder, "pilothouse-survey")
    assert first == await survey_machine(folder, "pilothouse-survey")
