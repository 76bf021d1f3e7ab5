from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.node.logs.writing import Log, record

from pilothouse.node.logs.log_patterns import PatternsError, count_matches, parse_patterns
from pilothouse.node.logs.log_reader import LogCursor


def test_patterns_are_names_and_texts() -> None:
    assert parse_patterns('{"oom": "OutOfMemoryError", "slow.query": "duration: "}') == {
        "oom": b"OutOfMemoryError",
        "slow.query": b"duration: ",
    }


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("oom=OutOfMemory", "not a JSON object"),
        ('["oom"]', "not a JSON object"),
        ('{"oom": 7}', "not a JSON object"),
        ('{"o m": "x"}', "the name 'o m' is invalid"),
        ('{"": "x"}', "the name '' is invalid"),
        ('{"oom": ""}', "the text of oom has 0 bytes; it must have from 1 to 256"),
        (json.dumps({"oom": "é" * 129}, ensure_ascii=False), "has 258 bytes"),
        ('{"oom": "a\\nb"}', "has a line break"),
        (json.dumps({f"p{number}": "x" for number in range(11)}), "it has 11 patterns; there may be 10"),
    ],
)
def test_what_is_wrong_with_patterns_is_said(text: str, said: str) -> None:
    with pytest.raises(PatternsError, match=said):
        parse_patterns(text)


def test_each_line_with_a_text_counts_once() -> None:
    block = b"".join(map(record, ("error error", "fine", "an error", "", "error")))
    assert count_matches(block, {"error": b"error", "other": b"absent"}) == {"error": 3}


def test_time_and_stream_of_a_line_are_not_searched() -> None:
    block = record("nothing") + record("2026 again", stream="stderr")
    assert count_matches(block, {"year": b"2026", "stream": b"stdout", "all": b" F "}) == {"year": 1}


def test_what_is_no_record_is_not_counted() -> None:
    assert count_matches(b"error\nerror\n", {"error": b"error"}) == {}


def test_a_cursor_knows_how_far_it_is_behind_across_rotations(tmp_path: Path) -> None:
    log = Log(tmp_path / "log")
    cursor = LogCursor(log.path)
    assert cursor.unread() == 0
    log.write(3)
    size = log.path.stat().st_size
    assert cursor.unread() == size
    assert len(b"".join(cursor.blocks())) == size
    assert cursor.unread() == 0
    log.rotate()
    log.write(2)
    assert cursor.unread() == log.path.stat().st_size
    cursor.skip()
    assert (cursor.unread(), list(cursor.blocks())) == (0, [])
    log.write(1)
    assert b"".join(cursor.blocks()).endswith(b"line 5\n")
    cursor.close()
