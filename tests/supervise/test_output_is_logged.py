"""What a program prints is in its log, line by line, and never holds the program up."""

from __future__ import annotations

import asyncio
import os
import re
import threading
from pathlib import Path

import pytest
from tests.kit.containers import Box, read_log
from tests.kit.waiting import eventually

from pilothouse.supervise.launch_spec import LogPolicy
from pilothouse.supervise.shim.log_writer import (
    BURST,
    LEAST_COST,
    RATE,
    LineSplitter,
    LogRateLimit,
    Timestamps,
)

COUNT = "i=0; while [ $i -lt {0} ]; do echo line $i; i=$((i+1)); done"


def files(folder: Path) -> dict[str, int]:
    """The log's files, and their sizes."""
    return {file.name: file.stat().st_size for file in sorted(folder.glob("log*"))}


async def test_lines_have_time_stream_and_mark(box: Box) -> None:
    container = await box.shell("echo to stdout; echo to stderr >&2")
    await container.exited()
    text = (container.folder / "log").read_text()
    moment = r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z"
    assert sorted(re.sub(moment, "T", text).splitlines()) == ["T stderr F to stderr", "T stdout F to stdout"]


async def test_a_last_line_without_an_end_is_kept(box: Box) -> None:
    container = await box.shell("printf 'one\\n\\nthree'")
    await container.exited()
    assert box.output(container) == ["one", "", "three"]


async def test_bytes_are_kept_as_they_are(box: Box) -> None:
    container = await box.shell("printf 'caf\\303\\251 \\377\\001\\r\\n'")
    await container.exited()
    assert (container.folder / "log").read_bytes().endswith(b" stdout F caf\xc3\xa9 \xff\x01\r\n")


async def test_a_line_that_is_written_slowly_is_one_line(box: Box) -> None:
    container = await box.shell("printf begin; sleep 0.05; printf middle; sleep 0.05; echo end")
    await container.exited()
    assert box.output(container) == ["beginmiddleend"]


async def test_a_line_without_end_is_passed_on_in_parts(box: Box) -> None:
    container = await box.shell("head -c 100000 /dev/zero | tr '\\0' x; echo; echo after")
    await container.exited()
    lines = box.lines(container)
    assert len(lines) > 2
    assert [line.whole for line in lines] == [False] * (len(lines) - 2) + [True, True]
    assert "".join(line.text for line in lines[:-1]) == "x" * 100_000
    assert lines[-1].text == "after"


@pytest.mark.parametrize("max_bytes", [200, 4096, 1 << 20])
async def test_rotation_loses_no_line(box: Box, tmp_path: Path, max_bytes: int) -> None:
    path = tmp_path / "log"
    container = await box.shell(COUNT.format(1000), log=LogPolicy(str(path), max_bytes=max_bytes, files=1000))
    await container.exited()
    assert [line.text for line in read_log(path)] == [f"line {number}" for number in range(1000)]
    sizes = files(tmp_path).values()
    assert max(sizes) <= max_bytes
    assert len(sizes) >= sum(sizes) / max_bytes


async def test_only_so_many_files_are_kept(box: Box, tmp_path: Path) -> None:
    path = tmp_path / "log"
    container = await box.shell(COUNT.format(2000), log=LogPolicy(str(path), max_bytes=2000, files=3))
    await container.exited()
    assert list(files(tmp_path)) == ["log", "log.1", "log.2"]
    kept = [line.text for line in read_log(path)]
    assert kept == [f"line {number}" for number in range(2000 - len(kept), 2000)]


async def test_a_single_file_is_begun_again(box: Box, tmp_path: Path) -> None:
    path = tmp_path / "log"
    container = await box.shell(COUNT.format(500), log=LogPolicy(str(path), max_bytes=2000, files=1))
    await container.exited()
    assert list(files(tmp_path)) == ["log"]
    assert read_log(path)[-1].text == "line 499"


async def test_a_program_faster_than_the_log_loses_nothing(box: Box) -> None:
    container = await box.run(
        "seq", "1", "300000", log=LogPolicy(str(box.folder / "fast"), max_bytes=1 << 30)
    )
    await container.exited()
    assert [line.text for line in read_log(box.folder / "fast")] == [
        str(number) for number in range(1, 300_001)
    ]


async def test_all_output_is_there_when_the_end_is_told(box: Box) -> None:
    for _ in range(10):
        container = await box.shell("seq 1 2000; echo last >&2")
        await container.exited()
        assert len(box.output(container)) == 2000
        assert box.output(container, "stderr") == ["last"]


async def test_a_full_disk_does_not_hold_it_up(box: Box) -> None:
    container = await box.shell("seq 1 200000; exit 3", log=LogPolicy("/dev/full"))
    async with asyncio.timeout(30):
        assert (await container.exited()).code == 3


async def test_a_log_that_is_no_file_is_not_rotated(box: Box, tmp_path: Path) -> None:
    """Renaming a device, as root, would take it from the whole machine."""
    pipe = tmp_path / "log"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        container = await box.shell("seq 1 100", log=LogPolicy(str(pipe), max_bytes=100))
        await container.exited()
        assert list(files(tmp_path)) == ["log"]
    finally:
        os.close(reader)


async def test_a_stuck_disk_does_not_hold_it_up(box: Box, tmp_path: Path) -> None:
    """A pipe that nobody reads stands for a disk that takes nothing."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        container = await box.shell("seq 1 400000; exit 3", log=LogPolicy(str(pipe), max_bytes=1 << 40))
        async with asyncio.timeout(60):
            assert (await container.exited()).code == 3
    finally:
        os.close(reader)


async def test_what_was_dropped_is_told(box: Box, tmp_path: Path) -> None:
    """The disk takes nothing for a while, then everything: how many lines are missing is where they are missing."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    container = await box.shell(
        f"seq 1 1000000; touch {tmp_path}/printed; while ! test -e {tmp_path}/go; do sleep 0.05; done; echo last",
        log=LogPolicy(str(pipe), max_bytes=1 << 40),
    )
    async with asyncio.timeout(120):
        while not (tmp_path / "printed").exists():  # noqa: ASYNC110 (the program has no other way to tell us)
            await asyncio.sleep(0.05)
    os.set_blocking(reader, True)
    received: list[bytes] = []

    def drain() -> None:
        while data := os.read(reader, 1 << 20):
            received.append(data)

    draining = threading.Thread(target=drain)
    draining.start()

    async def room_again() -> bool:
        return sum(map(len, received)) >= 2 << 20

    await eventually(room_again)
    (tmp_path / "go").touch()
    await container.exited()
    await asyncio.to_thread(draining.join)
    os.close(reader)
    texts = [line.split(" ", 3)[3] for line in b"".join(received).decode().splitlines()]
    notices = [text for text in texts if text.startswith("pilothouse: ")]
    assert notices
    assert "lines of output were dropped here: the disk took nothing for too long" in notices[0]
    assert texts[-1] == "last"
    told = 0
    for text in texts[:-1]:
        # What the program had printed and nobody had read yet may still come after what is missing.
        told += int(text.split()[1]) if text in notices else 1
        assert text in notices or int(text) == told, "it is told where they are missing"
    assert told == 1_000_000


async def test_output_handed_to_someone_outside_does_not_delay_the_end(bare: Box, tmp_path: Path) -> None:
    """A process that isn't the container's holds its standard output open: its end is told all the same."""
    container = await bare.shell("echo up; read x", stdin=True)
    await bare.says(container, "up")
    outside = os.open(f"/proc/{container.pid}/fd/1", os.O_WRONLY)
    try:
        async with asyncio.timeout(20):
            assert (await container.stop(9, 0)).code == 137
    finally:
        os.close(outside)


@pytest.mark.parametrize("size", [1, 65536], ids=["byte-by-byte", "as-much-as-a-pipe-holds"])
def test_a_program_that_prints_without_end_is_read_at_a_bounded_rate(size: int) -> None:
    """Each blank line becomes a record of 41 bytes, and each reading costs the shim, which no limit of the container's binds."""
    seconds, now, readings, written = 100, 0.0, 0, 0
    allowance, lines, moments = LogRateLimit(now), LineSplitter("stdout"), Timestamps()
    while now < seconds:
        if allowance.is_spent(now):
            now += 0.005
            continue
        records = len(lines.feed(b"\n" * size, moments.now()))
        allowance.spend(records)
        readings, written = readings + 1, written + records
    most = BURST + seconds * RATE + 41 * 65536
    assert most / 2 < max(written, readings * LEAST_COST) <= most


async def test_blank_lines_are_kept_no_faster_than_that(bare: Box) -> None:
    count = 2_000_000
    container = await bare.shell(f"head -c {count} /dev/zero | tr '\\0' '\\n'")
    exit = await container.exited()
    size = len(LineSplitter("stdout").feed(b"\n", Timestamps().now()))
    in_pipes = 4 * 65536
    assert exit.finished - exit.started >= ((count - in_pipes) * size - BURST) / RATE > 0
