"""Under an audit log that can't be written the server goes on, and says so where operators look."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.cli.running import Server
from tests.kit import kubeconfig
from tests.kit.http import Http
from tests.kit.servers import Target
from tests.kit.waiting import eventually

FAILURES = "pilothouse_audit_write_failures_total"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """The path of a log whose disk has no room at all."""
    path = tmp_path / "audit.log"
    path.symlink_to("/dev/full")
    return path


@pytest.fixture
async def http(tmp_path: Path, log: Path) -> AsyncIterator[Http]:
    with Server(tmp_path / "data", "--store", "memory", "--audit-log-path", str(log)) as server:
        access = kubeconfig.read(server.kubeconfig, unpack=tmp_path / "pki")
        async with Http.to(Target("ours", access, server.kubeconfig)) as client:
            yield client


def make_room(log: Path) -> None:
    """What is written next goes to a file like any other."""
    log.unlink()


def recorded(log: Path) -> str:
    return log.read_text()


async def failures(http: Http) -> float:
    lines = (await http.get("/metrics")).text.splitlines()
    return next(float(line.split()[-1]) for line in lines if line.startswith(FAILURES))


async def test_requests_are_answered_and_operators_are_told(http: Http, log: Path) -> None:
    maps = "/api/v1/namespaces/default/configmaps"
    for number in range(20):
        (await http.post(maps, {"metadata": {"name": f"m-{number}"}})).expect(201)
    assert len((await http.get(maps)).expect(200)["items"]) == 20

    async def told() -> str | None:
        answer = await http.get("/readyz")
        return answer.text if answer.status == 500 else None

    said = await eventually(told)
    assert f"[-]audit failed: the audit log {log} can't be written: No space left on device" in said
    assert "[+]store ok" in said
    assert (await http.get("/livez")).status == 200  # A restart would not make room.
    assert await failures(http) >= 1

    make_room(log)

    async def well() -> bool:
        return (await http.get("/readyz")).status == 200

    await eventually(well)
    assert '"m-0"' in recorded(log)
