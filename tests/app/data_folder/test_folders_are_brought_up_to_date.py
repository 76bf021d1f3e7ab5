from __future__ import annotations

from pathlib import Path

import pytest

from pilothouse.app.data_folder import DataFolder
from pilothouse.app.options import StartError


def to_two(path: Path) -> None:
    (path / "two").write_text("")


def to_three(path: Path) -> None:
    (path / "three").write_text((path / "two").read_text())


def format_of(path: Path) -> str:
    return (path / "format").read_text().strip()


def test_an_older_folder_is_taken_over_step_by_step(tmp_path: Path) -> None:
    DataFolder.open(tmp_path)
    assert format_of(tmp_path) == "1"
    DataFolder.open(tmp_path, [to_two, to_three])
    assert format_of(tmp_path) == "3"
    assert (tmp_path / "three").exists()


def test_steps_that_were_taken_are_not_taken_again(tmp_path: Path) -> None:
    DataFolder.open(tmp_path, [to_two])
    assert format_of(tmp_path) == "2"
    assert not (tmp_path / "two").exists()  # It began with the newest layout.
    (tmp_path / "two").write_text("mine")
    DataFolder.open(tmp_path, [to_two, to_three])
    assert (tmp_path / "three").read_text() == "mine"


def test_a_step_that_fails_is_the_next_one_again(tmp_path: Path) -> None:
    DataFolder.open(tmp_path)

    def breaks(path: Path) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(StartError, match="No space left on device"):
        DataFolder.open(tmp_path, [to_two, breaks])
    assert format_of(tmp_path) == "2"
    DataFolder.open(tmp_path, [to_two, to_three])
    assert format_of(tmp_path) == "3"


def test_an_older_program_refuses_and_touches_nothing(tmp_path: Path) -> None:
    DataFolder.open(tmp_path, [to_two, to_three])
    before = sorted(path.name for path in tmp_path.iterdir())
    with pytest.raises(StartError, match="data format 3, this program knows formats up to 2"):
        DataFolder.open(tmp_path, [to_two])
    assert sorted(path.name for path in tmp_path.iterdir()) == before


@pytest.mark.parametrize("text", ["banana", "", "-1", "0", "1.5"])
def test_a_format_that_is_no_number_is_refused(tmp_path: Path, text: str) -> None:
    DataFolder.open(tmp_path)
    (tmp_path / "format").write_text(text)
    with pytest.raises(StartError, match="should hold a number"):
        DataFolder.open(tmp_path)


def test_images_may_be_brought_before_the_first_start(tmp_path: Path) -> None:
    (tmp_path / "node" / "images" / "names").mkdir(parents=True)
    DataFolder.open(tmp_path)
    assert format_of(tmp_path) == "1"


def test_a_folder_named_node_with_other_things_in_it_is_somebody_elses(tmp_path: Path) -> None:
    (tmp_path / "node" / "modules").mkdir(parents=True)
    with pytest.raises(StartError, match=r"no file named format \(node\)"):
        DataFolder.open(tmp_path)
