from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.node.logs.writing import Log, record, told

from pilothouse.api.kubernetes.pods.log_options import LogOptions
from pilothouse.base.rfc3339 import parse_time
from pilothouse.node.logs.log_reader import read_log
from pilothouse.node.logs.log_records import LogFormatter

TEN = parse_time("2026-11-15T10:00:00Z")


async def ended() -> None:
    return None


async def text(path: Path, **options: Any) -> bytes:
    chosen = LogOptions(**options)
    return b"".join([piece async for piece in read_log(path, chosen, ended)])


@pytest.fixture
def log(tmp_path: Path) -> Log:
    """Forty lines in three files."""
    made = Log(tmp_path / "log")
    for count in (10, 20, 10):
        if made.lines:
            made.rotate()
        made.write(count)
    return made


async def test_all_of_it_oldest_first_over_rotated_files(log: Log) -> None:
    assert await text(log.path) == told(0, 40)


@pytest.mark.parametrize("count", [0, 1, 9, 10, 11, 30, 39, 40, 41, 1000])
async def test_the_last_lines(log: Log, count: int) -> None:
    assert await text(log.path, tail=count) == told(max(0, 40 - count), 40)


async def test_lines_since_a_moment(log: Log) -> None:
    assert await text(log.path, since=TEN + 25) == told(25, 40)


async def test_since_counts_within_the_last_lines(log: Log) -> None:
    assert await text(log.path, since=TEN + 25, tail=3) == told(37, 40)
    assert await text(log.path, since=TEN + 39, tail=30) == told(39, 40)


async def test_timestamps_go_before_each_line(log: Log) -> None:
    assert await text(log.path, tail=1, timestamps=True) == b"2026-11-15T10:00:39.000000000Z line 39\n"


async def test_no_more_bytes_than_the_limit(log: Log) -> None:
    assert await text(log.path, limit=10) == b"line 0\nlin"


async def test_one_stream_alone(tmp_path: Path) -> None:
    log = Log(tmp_path / "log")
    log.append(record("good") + record("bad", stream="stderr") + record("good again"))
    assert await text(log.path, stream="Stderr") == b"bad\n"
    assert await text(log.path, stream="Stdout") == b"good\ngood again\n"


async def test_no_log_yet_is_an_empty_one(tmp_path: Path) -> None:
    assert await text(tmp_path / "log") == b""
    assert await text(tmp_path / "log", tail=5) == b""


async def test_parts_of_a_line_are_told_as_one_line(tmp_path: Path) -> None:
    log = Log(tmp_path / "log")
    log.append(record("before") + record("a long ", tag="P") + record("noise", stream="stderr"))
    log.append(record("line", second=5) + record("after"))
    assert await text(log.path) == b"before\na long noise\nline\nafter\n"
    assert await text(log.path, stream="Stdout") == b"before\na long line\nafter\n"
    assert await text(log.path, tail=2) == b"line\nafter\n"
    stamped = await text(log.path, stream="Stdout", timestamps=True)
    assert stamped.splitlines()[1] == b"2026-11-15T10:00:00.000000000Z a long line"


async def test_content_is_passed_on_as_it_is(tmp_path: Path) -> None:
    log = Log(tmp_path / "log")
    log.append(b"2026-11-15T10:00:00.000000000Z stdout F   two  spaces, \xff and \r\x1b[31m\n")
    assert await text(log.path) == b"  two  spaces, \xff and \r\x1b[31m\n"
    assert await text(log.path, since=TEN + 1) == b""


async def test_empty_lines_are_lines(tmp_path: Path) -> None:
    log = Log(tmp_path / "log")
    log.append(record("one") + record("") + record(""))
    assert await text(log.path) == b"one\n\n\n"
    assert await text(log.path, tail=2) == b"\n\n"


async def test_what_is_no_record_is_told_as_it_is(tmp_path: Path) -> None:
    log = Log(tmp_path / "log")
    log.append(b"garbage\n" + record("line"))
    assert await text(log.path) == b"garbage\nline\n"


async def test_long_lines_are_found_from_the_end(tmp_path: Path) -> None:
    log = Log(tmp_path / "log")
    lines = ["x" * length for length in (100_000, 70_000, 65_536, 3, 200_000)]
    log.append(b"".join(map(record, lines)))
    for count in range(6):
        assert (
            await text(log.path, tail=count) == "".join(f"{line}\n" for line in lines[5 - count :]).encode()
        )


@given(
    st.lists(st.tuples(st.sampled_from("PF"), st.text("ab ", max_size=5)), max_size=30),
    st.integers(1, 60),
)
def test_a_limit_cuts_what_would_be_told_without_it(records: list[tuple[str, str]], limit: int) -> None:
    block = b"".join(record(content, tag=tag) for tag, content in records)
    whole = LogFormatter(LogOptions()).format(block)
    assert LogFormatter(LogOptions(limit=limit)).format(block) == whole[:limit]
