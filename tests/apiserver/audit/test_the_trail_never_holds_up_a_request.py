"""A bounded trail: what does not fit is dropped and counted, a disk that fails is waited for, nobody is held up."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

from tests.apiserver.audit.scenes import ALICE, EVERYTHING, asked, lines_of, see, trail_at
from tests.kit.waiting import eventually

from pilothouse.apiserver.audit.audit_policy import DEFAULT
from pilothouse.apiserver.audit.log_file import LogFile, Rotation
from pilothouse.apiserver.audit.records import AuditRecorder
from pilothouse.apiserver.audit.request_stage import Arrival
from pilothouse.apiserver.audit.trail import AuditTrail
from pilothouse.apiserver.server.messages import Request, Response
from pilothouse.base.clock import SystemClock


async def test_what_is_seen_is_written_in_order(tmp_path: Path) -> None:
    async with trail_at(tmp_path / "audit.log") as trail:
        for number in range(500):
            see(trail, f"web-{number}")
        await trail.flushed(10)

        told = [line["objectRef"]["name"] for line in lines_of(tmp_path / "audit.log")]

    assert told == [f"web-{number}" for number in range(500)]
    assert (trail.counts.written, trail.counts.dropped) == (500, 0)


async def test_closing_writes_what_is_left(tmp_path: Path) -> None:
    async with trail_at(tmp_path / "audit.log") as trail:
        see(trail)

    assert len(lines_of(tmp_path / "audit.log")) == 1


async def test_records_that_do_not_fit_are_dropped_and_counted(tmp_path: Path) -> None:
    async with trail_at(tmp_path / "audit.log", most_records=100) as trail:
        for number in range(250):
            see(trail, f"web-{number}")
        assert trail.counts.dropped == 150
        await trail.flushed(10)

        see(trail, "later")
        await trail.flushed(10)

    told = [line["objectRef"]["name"] for line in lines_of(tmp_path / "audit.log")]
    assert told == [*(f"web-{number}" for number in range(100)), "later"]


async def test_bodies_count_by_their_size(tmp_path: Path) -> None:
    body = json.dumps({"kind": "Pod", "metadata": {"name": "x" * 1000}}).encode()
    async with trail_at(tmp_path / "audit.log", policy=EVERYTHING, most_bytes=10_000) as trail:
        for _ in range(20):
            request = asked("PUT", body=body)
            trail.record(Arrival("id", request.path, trail.now()), request, 200, Response(200, body))
        assert trail.counts.dropped == 16
        await trail.flushed(10)
        for _ in range(4):
            request = asked("PUT", body=body)
            trail.record(Arrival("id", request.path, trail.now()), request, 200, Response(200, body))
        await trail.flushed(10)

    assert trail.counts.dropped == 16
    assert trail.counts.written == 8


async def test_a_full_disk_is_told_and_tried_again(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    path.symlink_to("/dev/full")
    async with trail_at(path, most_records=50, retry=0.01) as trail:
        for number in range(80):
            see(trail, f"web-{number}")
        await eventually(trail.problem)

        assert f"the audit log {path} can't be written: No space left on device" in await trail.problem()
        assert "50 records wait, 30 were dropped" in await trail.problem()
        assert trail.counts.written == 0

        path.unlink()
        await trail.flushed(10)

        assert await trail.problem() == ""
        assert len(lines_of(path)) == trail.counts.written == 50
        assert trail.counts.failures >= 1


def test_lines_that_were_written_in_part_are_not_there_twice(tmp_path: Path) -> None:
    """A disk with room for a part of what is written. The limit that plays it holds for a whole process."""
    path = tmp_path / "audit.log"
    log = LogFile(path, Rotation())
    log.write(b"first\n")
    script = f"""
import resource, signal
from pathlib import Path
from pilothouse.apiserver.audit.log_file import LogFile, Rotation
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (9, 9))
LogFile(Path({str(path)!r}), Rotation()).write(b"second\\n")
"""

    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)

    assert "File too large" in ran.stderr
    assert path.read_bytes() == b"first\n"
    log.write(b"second\n")
    assert path.read_bytes() == b"first\nsecond\n"


async def test_a_disk_that_hangs_holds_up_nobody(tmp_path: Path) -> None:
    """A pipe that nobody reads from takes a little, then makes its writer wait, as a network disk that is gone does."""
    path = tmp_path / "audit.log"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        async with trail_at(path, most_records=1000) as trail:
            for _ in range(5):
                for number in range(400):
                    see(trail, f"web-{number}")
                async with asyncio.timeout(30):
                    await trail.flushed(0.2)

            assert trail.counts.dropped >= 1000
            assert trail.counts.written == 0

            async def drained() -> bool:
                try:
                    while os.read(reader, 65536):
                        pass
                except BlockingIOError:
                    pass
                return trail.counts.written == 1000

            await eventually(drained)
    finally:
        os.close(reader)


async def test_a_request_of_which_no_record_can_be_made_is_counted_and_passed_by(tmp_path: Path) -> None:
    async with trail_at(tmp_path / "audit.log") as trail:
        broken = Request("GET", "/api", headers=None, user=ALICE)  # type: ignore[arg-type]  # On purpose.
        trail.record(Arrival("id", "/api", trail.now()), broken, 200)
        see(trail)
        await trail.flushed(10)

    assert (trail.counts.written, trail.counts.dropped) == (1, 1)


async def test_what_the_policy_does_not_want_costs_no_line(tmp_path: Path) -> None:
    async with trail_at(tmp_path / "audit.log") as trail:
        request = asked(target="/readyz")
        trail.record(Arrival("id", "/readyz", trail.now()), request, 200)
        await trail.flushed(10)

    assert trail.counts.written == 0


async def test_a_file_that_can_not_be_made_yet_is_made_when_it_can(tmp_path: Path) -> None:
    blocker = tmp_path / "folder"
    blocker.write_text("in the way")
    trail = AuditTrail(
        LogFile(blocker / "audit.log", Rotation()),
        AuditRecorder(DEFAULT, "host-1"),
        SystemClock(),
        retry=0.01,
    )
    async with trail.running():
        see(trail)
        await eventually(trail.problem)
        blocker.unlink()
        await trail.flushed(10)

    assert len(lines_of(blocker / "audit.log")) == 1
