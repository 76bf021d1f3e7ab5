"""The first line of `pilothouse up`: the node was ready, or why it is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from pilothouse.app.data_folder import DataFolder
from pilothouse.app.up_state import UpReport
from pilothouse.cli.up import _welcome


def first_line(folder: Path, capsys: pytest.CaptureFixture[str], **fields: str) -> str:
    report = UpReport(1, 0.0, "https://127.0.0.1:6443", "n1", keep=False, ready=1.5, roles=(), **fields)
    _welcome(report, DataFolder(folder))
    return capsys.readouterr().out.splitlines()[0]


def test_a_node_that_is_ready(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = "Pilothouse is up at https://127.0.0.1:6443; the node n1 was ready after 1.5 s."
    assert first_line(tmp_path, capsys) == said


def test_a_node_that_is_not(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = "Pilothouse is up at https://127.0.0.1:6443; the node n1 is not ready: volumes stopped: OSError"
    assert first_line(tmp_path, capsys, node_problem="volumes stopped: OSError") == said
