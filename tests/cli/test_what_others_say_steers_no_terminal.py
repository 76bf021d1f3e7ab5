"""Words of nodes and pods reach the administrator's terminal as text, whatever is in them."""

from __future__ import annotations

from pilothouse.base.terminal_text import escape_control_characters
from pilothouse.cli.audit import _row
from pilothouse.cli.status import _table
from pilothouse.diagnosis.explanation import as_text, explain
from pilothouse.diagnosis.findings import Findings, LeaseHolder, ObjectFindings

EVIL = "\x1b[31m\x1b]0;pwn\x07EVIL\x1b[2J\r\nfake line\x9b2J\u202e"


def test_controls_are_shown_and_lines_stay_one() -> None:
    assert escape_control_characters(EVIL) == "^[[31m^[]0;pwn^GEVIL^[[2J^M^Jfake line\\u009b2J\\u202e"
    assert escape_control_characters("plain\ttext, übrigens") == "plain\ttext, übrigens"
    # A name that is not UTF-8, as os.listdir returns it.
    assert escape_control_characters("\udcff") == "\\udcff"


def test_why_shows_them() -> None:
    about = ObjectFindings("v1", "Pod", "default", "web-0", problem=EVIL)
    findings = Findings(about, leader=LeaseHolder("kube-system/pilothouse"))
    assert any("\x1b" in line for line in explain(findings, now=0.0)), "it is there to be shown"
    said = as_text(findings, now=0.0)
    assert "\x1b" not in said
    assert "^[[31m" in said


def test_status_shows_them() -> None:
    (column,) = _table(("STATUS",), ((EVIL,),), state=0).columns
    (cell,) = column.cells
    assert "\x1b" not in str(cell)


def test_the_audit_trail_shows_them() -> None:
    row = escape_control_characters(_row({"user": {"username": EVIL}, "stage": "ResponseComplete"}))
    assert "\x1b" not in row
