"""The log file: appended to, put aside, kept for as long as asked, readable by its owner only."""

from __future__ import annotations

import re
import stat
from pathlib import Path

from pilothouse.apiserver.audit.log_file import DAY, LogFile, Rotation
from pilothouse.base.clock import ManualClock

LINE = b"x" * 99 + b"\n"
T0 = 1_700_000_000.0


def names(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir())


def test_a_file_that_would_grow_too_large_is_put_aside_first(tmp_path: Path) -> None:
    log = LogFile(tmp_path / "audit.log", Rotation(size=250), ManualClock(T0).now)

    for _ in range(3):
        log.write(LINE)

    assert names(tmp_path) == ["audit-2023-11-14T22-13-20.000.log", "audit.log"]
    assert (tmp_path / "audit.log").read_bytes() == LINE
    assert (tmp_path / "audit-2023-11-14T22-13-20.000.log").read_bytes() == 2 * LINE


def test_two_files_put_aside_at_one_moment_have_two_names(tmp_path: Path) -> None:
    log = LogFile(tmp_path / "audit.log", Rotation(size=100), ManualClock(T0).now)

    for _ in range(4):
        log.write(LINE)

    assert len(names(tmp_path)) == 4
    assert all(re.fullmatch(r"audit(-2023-11-14T22-13-20\.00\d)?\.log", name) for name in names(tmp_path))


def test_only_so_many_are_kept(tmp_path: Path) -> None:
    clock = ManualClock(T0)
    log = LogFile(tmp_path / "audit.log", Rotation(size=100, backups=2), clock.now)

    for _ in range(6):
        log.write(LINE)
        clock.advance(1)

    assert names(tmp_path) == [
        "audit-2023-11-14T22-13-24.000.log",
        "audit-2023-11-14T22-13-25.000.log",
        "audit.log",
    ]


def test_only_young_ones_are_kept(tmp_path: Path) -> None:
    clock = ManualClock(T0)
    log = LogFile(tmp_path / "audit.log", Rotation(size=100, backups=0, age=2 * DAY), clock.now)

    for _ in range(6):
        log.write(LINE)
        clock.advance(DAY)

    assert [name for name in names(tmp_path) if name != "audit.log"] == [
        "audit-2023-11-17T22-13-20.000.log",
        "audit-2023-11-18T22-13-20.000.log",
        "audit-2023-11-19T22-13-20.000.log",
    ]


def test_without_limits_nothing_is_put_aside_or_removed(tmp_path: Path) -> None:
    (tmp_path / "audit-2001-01-01T00-00-00.000.log").write_bytes(LINE)
    log = LogFile(tmp_path / "audit.log", Rotation(size=0, backups=0, age=0), ManualClock(T0).now)

    for _ in range(50):
        log.write(LINE)

    assert names(tmp_path) == ["audit-2001-01-01T00-00-00.000.log", "audit.log"]


def test_other_files_are_left_alone(tmp_path: Path) -> None:
    for name in ("audit-notes.log", "audit-2001.log", "other-2001-01-01T00-00-00.000.log"):
        (tmp_path / name).write_text("mine")

    LogFile(tmp_path / "audit.log", Rotation(backups=1, age=1), ManualClock(T0).now).write(LINE)

    assert len(names(tmp_path)) == 4


def test_only_the_owner_may_read(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "er" / "audit.log"
    log = LogFile(path, Rotation(size=100), ManualClock(T0).now)

    log.write(LINE)
    log.write(LINE)

    modes = {stat.S_IMODE(each.stat().st_mode) for each in path.parent.iterdir()}
    assert modes == {0o600}
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_an_open_file_of_others_is_closed_to_them(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    path.write_bytes(LINE)
    path.chmod(0o644)

    LogFile(path, Rotation()).write(LINE)

    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.read_bytes() == 2 * LINE


def test_after_a_crash_in_the_middle_of_a_line_the_next_begins_on_its_own(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    path.write_bytes(LINE + b'{"half')

    LogFile(path, Rotation()).write(LINE)

    assert path.read_bytes() == LINE + b'{"half\n' + LINE


def test_a_file_that_was_moved_away_is_begun_anew(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    log = LogFile(path, Rotation())
    log.write(LINE)

    path.rename(tmp_path / "moved")
    log.write(LINE)

    assert path.read_bytes() == LINE
    assert (tmp_path / "moved").read_bytes() == LINE


def test_a_rotation_while_files_are_opened_hides_none(tmp_path: Path) -> None:
    log = LogFile(tmp_path / "audit.log", Rotation(size=100), ManualClock(T0).now)
    for number in range(3):
        log.write(b"%d" % number * 99 + b"\n")

    files = log.files()
    log.write(LINE)

    assert [file.read()[:1] for file in files] == [b"2", b"1", b"0"]
    for file in files:
        file.close()
