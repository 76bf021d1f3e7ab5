"""With ``--update-profile``, the machine of `pilothouse up` is updated by plans: its pods leave, and come back."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.app.up.manifests import stateful_set
from tests.app.up.watching import pod_once
from tests.kit.control_planes import UpPlane
from tests.kit.managed_programs import program
from tests.kit.payload_server import PayloadFile, PayloadServer
from tests.kit.processes import free_port
from tests.kit.update_fleet import PLATFORM, stop_program
from tests.kit.waiting import eventually

from pilothouse.cli.up import up

FIRST, NEXT, FAILING = "v1.0.0", "v1.1.0", "v1.2.0"
EVERY: dict[str, Any] = {"discovery": {"selector": {}}}


@pytest.fixture
async def plane(tmp_path: Path) -> AsyncIterator[UpPlane]:
    path, port = tmp_path / "program", str(free_port())
    path.write_bytes(program(FIRST))
    path.chmod(0o755)
    profile = {
        "path": str(path),
        "version": ["{path}", "ask", port],
        "health": f"http://127.0.0.1:{port}/readyz",
        "run": ["{path}", "serve", port],
        "healthFor": "100ms",
        "healthWithin": "5s",
    }
    file = tmp_path / "profile.yaml"
    file.write_text(json.dumps(profile))
    with UpPlane(tmp_path, "--update-profile", str(file), "--max-download-size", "1Mi") as plane:
        yield plane
    await stop_program(plane.data)


def plan(payloads: PayloadServer, version: str, content: bytes) -> str:
    payloads.files[f"/{version}"] = PayloadFile(content)
    update = {
        "version": version,
        "platforms": {PLATFORM: {"url": payloads.url(f"/{version}")}},
        "targets": {"controllers": EVERY, "workers": EVERY},
    }
    tree = {
        "apiVersion": "autopilot.k0sproject.io/v1beta2",
        "kind": "Plan",
        "metadata": {"name": "autopilot"},
        "spec": {"id": version, "commands": [{"k0supdate": update}]},
    }
    return json.dumps(tree)


async def reported(plane: UpPlane, version: str) -> bool:
    control_node = json.loads((await plane.kubectl("get", "controlnode", "n1", "-o", "json")).ok())
    return bool((control_node.get("status") or {}).get("k0sVersion") == version)


async def ended(plane: UpPlane, version: str) -> dict[str, Any]:
    """The status of the plan, once its run of this version has ended."""

    async def over() -> dict[str, Any] | None:
        found = json.loads((await plane.kubectl("get", "plan", "autopilot", "-o", "json")).ok())
        status: dict[str, Any] = found.get("status") or {}
        is_over = status.get("completedTime") and status["spec"]["id"] == version
        return status if is_over else None

    found = await eventually(over, seconds=120)
    assert found is not None
    return found


async def test_its_pods_leave_and_come_back_and_a_version_that_fails_is_taken_back(plane: UpPlane) -> None:
    await plane.kubectl("apply", "-f", "-", stdin=stateful_set())
    before = await pod_once(plane)
    await eventually(lambda: reported(plane, FIRST), seconds=60)
    with PayloadServer.running() as payloads:
        (await plane.kubectl("apply", "-f", "-", stdin=plan(payloads, NEXT, program(NEXT)))).ok()
        status = await ended(plane, NEXT)
        assert (status["state"], status["progress"]) == ("Completed", "1/1"), status["history"]
        assert await reported(plane, NEXT)
        after = await pod_once(plane)
        assert after["metadata"]["uid"] != before["metadata"]["uid"]

        broken = plan(payloads, FAILING, program(FAILING, behaviour="unhealthy"))
        (await plane.kubectl("apply", "-f", "-", stdin=broken)).ok()
        status = await ended(plane, FAILING)
        assert status["state"] == "ApplyFailed"
        assert status["history"][0]["description"].startswith("controller n1: ")
        assert await reported(plane, NEXT)
    node = json.loads((await plane.kubectl("get", "node", "n1", "-o", "json")).ok())
    assert "unschedulable" not in node["spec"]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--update-profile", "missing.yaml"], "missing.yaml can't be read"),
        (["--payloads", "digest"], "--payloads, --trusted-keys and --download-* need --update-profile"),
        (["--update-profile", "k0s", "--payloads", "signed"], "--payloads signed needs --trusted-keys FILE"),
        (["--update-server-ca", "updates.example=missing.pem"], "missing.pem can't be read"),
    ],
)
def test_mistakes_are_reported_before_anything_is_started(
    tmp_path: Path, flags: list[str], message: str
) -> None:
    done = UpPlane(tmp_path).run("up", "--listen", "127.0.0.1:0", *flags)
    assert done.returncode == 1
    assert message in " ".join(done.stderr.split())
    assert not (tmp_path / "data").exists()


def test_it_does_not_replace_what_it_is_a_part_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pilothouse.app.node_updates.own_root", lambda: tmp_path / "root")
    flags = ["--data", str(tmp_path / "data"), "--listen", "127.0.0.1:0", "--update-profile", "pilothouse"]
    result = CliRunner().invoke(up, flags)
    assert result.exit_code == 1
    assert "`up` can't replace what it is a part of" in result.output
    assert not (tmp_path / "data").exists()
