"""A payload that is not what the plan says never gets as far as a drain."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.kit.managed_programs import program
from tests.kit.payload_server import PayloadFile, Redirect, Refusal
from tests.node.updating.machine import QUICK, UpdatedMachine, updated_machine


def refused(machine: UpdatedMachine) -> dict[str, str]:
    return {"url": "http://127.0.0.1:1/k0s"}


def missing(machine: UpdatedMachine) -> dict[str, str]:
    machine.server.files["/v2.0.0"] = Refusal(404)
    return {}


def stalled(machine: UpdatedMachine) -> dict[str, str]:
    machine.serve("v2.0.0", program("v2.0.0"), stall_after=10)
    return {}


def cut_off(machine: UpdatedMachine) -> dict[str, str]:
    machine.serve("v2.0.0", program("v2.0.0"), cut_after=10)
    return {}


def endless(machine: UpdatedMachine) -> dict[str, str]:
    machine.serve("v2.0.0", b"x" * 4096, endless=True)
    return {"sha256": "0" * 64}


def wrong_hash(machine: UpdatedMachine) -> dict[str, str]:
    machine.serve("v2.0.0", program("v2.0.0"))
    return {"sha256": "0" * 64}


def no_hash(machine: UpdatedMachine) -> dict[str, str]:
    machine.serve("v2.0.0", program("v2.0.0"))
    return {"sha256": "zz"}


def not_executable(machine: UpdatedMachine) -> dict[str, str]:
    machine.serve("v2.0.0", b"<html>not found</html>")
    return {}


def other_scheme(machine: UpdatedMachine) -> dict[str, str]:
    return {"url": "file:///etc/passwd"}


def redirected(machine: UpdatedMachine) -> dict[str, str]:
    machine.server.files["/v2.0.0"] = Redirect("file:///etc/passwd")
    return {}


CASES: list[tuple[Callable[[UpdatedMachine], dict[str, str]], str]] = [
    (refused, "can't be reached: Connection refused (tried 3 times)"),
    (missing, "the server answers with status 404"),
    (stalled, "nothing came for 1 s, after 10 bytes"),
    (cut_off, "it was cut off after 10 bytes"),
    (endless, "has more than 100000 bytes, the most allowed"),
    (wrong_hash, "as the plan says"),
    (no_hash, "sha256 'zz' is not a SHA-256: expected 64 hexadecimal digits"),
    (not_executable, "is not executable: Exec format error"),
    (other_scheme, "'file:///etc/passwd' is not an http or https URL"),
    (redirected, "'file:///etc/passwd' is not an http or https URL"),
]


@pytest.mark.parametrize(("payload", "reason"), CASES, ids=lambda case: getattr(case, "__name__", ""))
async def test_the_machine_stays_as_it_is_k0s_A13_A14_A15(
    tmp_path: Path, payload: Callable[[UpdatedMachine], dict[str, str]], reason: str
) -> None:
    async with updated_machine(tmp_path, agent=False) as machine:
        stall = 1.0 if payload is stalled else QUICK.stall
        machine.downloads = dataclasses.replace(QUICK, stall=stall, most_bytes=100_000)
        machine.start_agent()
        await machine.answers("v1.0.0")
        before = await machine.running()
        await machine.order("v2.0.0", **payload(machine))
        await machine.signal()
        ended = await machine.until("FailedDownload", "Failed", "Completed")
        assert ended.status is not None
        assert reason in ended.status.reason
        steps = await machine.noted("FailedDownload")
        assert steps == ["Downloading", "FailedDownload"]
        after = await machine.running()
        assert before is not None
        assert after is not None
        assert after.pid == before.pid
        assert machine.path.read_bytes() == program("v1.0.0")
        assert machine.left_beside() == []


async def test_a_payload_that_is_swapped_between_tries_is_downloaded_anew(tmp_path: Path) -> None:
    async with updated_machine(tmp_path) as machine:
        swapped = PayloadFile(program("v2.0.0"), etag='"2"')
        machine.server.files["/v2.0.0"] = swapped
        await machine.order("v2.0.0")
        # The first answer is of another file, and breaks off.
        machine.server.files["/v2.0.0"] = PayloadFile(b"x" * 5000, etag='"1"', cut_after=1000)
        machine.server.then["/v2.0.0"] = swapped
        await machine.signal()
        await machine.until("Completed")
        assert await machine.asked() == "v2.0.0"
        assert [each.headers.get("if-range") for each in machine.server.seen] == [None, '"1"']
