"""What a new user does: one command, the printed lines, Ctrl-C, and again."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import pytest
from tests.app.up.manifests import stateful_set
from tests.app.up.watching import groups_of, in_memory, is_mounted_below, lives, pod_once, program_of
from tests.kit.control_planes import UpPlane, as_ordinary_user
from tests.kit.waiting import eventually


async def test_the_printed_lines_work(plane: UpPlane, monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(plane.output.splitlines()) < 24, "more than a screen"
    [config] = re.findall(r"export KUBECONFIG=(.+)", plane.output)
    assert config == str(plane.data / "admin.kubeconfig")
    nodes = (await plane.kubectl("get", "nodes")).rows()
    assert nodes[1][:2] == ["n1", "Ready"]
    classes = (await plane.kubectl("get", "storageclasses")).rows()
    assert [row[0] for row in classes[1:]] == ["directory (default)", "loop"]
    await plane.kubectl("apply", "-f", "-", stdin=stateful_set())
    await pod_once(plane)

    async def logged() -> bool:
        return (await plane.kubectl("logs", "web-0")).out == "began\n"

    await eventually(logged)
    assert (await plane.kubectl("exec", "web-0", "--", "hostname")).ok() == "web-0\n"
    shown = plane.run("status")
    assert shown.returncode == 0, shown.stderr
    for words in ("apiserver", "controller-manager", "node ", "n1", "web-0", "1/1"):
        assert words in shown.stdout
    # Colours may be asked for where nobody watches: it is printed once all the same.
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "web-0" in plane.run("status").stdout


async def test_ctrl_c_stops_all_of_it_and_the_next_up_goes_on(plane: UpPlane) -> None:
    await plane.kubectl("apply", "-f", "-", stdin=stateful_set())
    pod = await pod_once(plane)
    await plane.kubectl("delete", "storageclass", "loop")
    pids = [plane.report["pid"], *(role["pid"] for role in plane.report["roles"]), program_of(plane, pod)]
    assert all(map(lives, pids))
    groups = groups_of(plane, pod)
    assert all(group.is_dir() for group in groups)
    assert plane.stop(signal.SIGINT) == 0, plane.output
    assert "Traceback" not in plane.output
    assert not any(map(lives, pids))
    assert not is_mounted_below(plane.data)
    assert not any(group.exists() for group in groups)
    shown = plane.run("status")
    assert (shown.returncode, "nothing is running" in shown.stdout) == (1, True)

    plane.start()
    again = await pod_once(plane, restarts=1)
    assert again["metadata"]["uid"] == pod["metadata"]["uid"]
    # What a person deleted is not made again.
    assert (await plane.kubectl("get", "storageclass", "loop")).code == 1


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP], ids=lambda each: each.name)
async def test_whichever_way_it_is_told_to_stop(plane: UpPlane, number: signal.Signals) -> None:
    if signal.getsignal(number) is signal.SIG_IGN:
        pytest.skip(f"these tests run with nohup, under which `up` does not stop for {number.name} either")
    await plane.kubectl("apply", "-f", "-", stdin=stateful_set())
    pid = program_of(plane, await pod_once(plane))
    assert plane.stop(number) == 0, plane.output
    assert not lives(pid)


async def test_a_second_up_on_the_same_data_is_told_of_the_first(plane: UpPlane) -> None:
    second = plane.run("up", "--listen", "127.0.0.1:0")
    assert second.returncode == 1
    assert f"is already running on {plane.data}, as process {plane.report['pid']}" in second.stderr
    assert (await plane.kubectl("get", "nodes")).code == 0


@pytest.mark.long
async def test_down_stops_it_from_elsewhere(plane: UpPlane) -> None:
    await plane.kubectl("apply", "-f", "-", stdin=stateful_set())
    pid = program_of(plane, await pod_once(plane))
    done = plane.run("down")
    assert (done.returncode, done.stdout) == (0, "down\n"), done.stderr
    assert not lives(pid)
    assert plane.run("down").stdout == f"nothing is running on {plane.data}\n"


def test_a_port_that_is_taken_is_told_in_a_line(plane: UpPlane, tmp_path: Path) -> None:
    address = plane.report["url"].removeprefix("https://")
    other = UpPlane(tmp_path / "other")
    (tmp_path / "other").mkdir()
    done = other.run("up", "--listen", address)
    assert done.returncode == 1
    [line] = done.stderr.strip().splitlines()
    assert line.startswith(f"Error: apiserver: can't listen on {address}: ")
    assert line.lower().endswith("address already in use")
    assert not (other.data / "up.json").exists()


async def test_an_ordinary_user_has_all_of_it_too() -> None:
    with as_ordinary_user() as (folder, command, env), UpPlane(folder, command=command, env=env) as plane:
        await plane.kubectl("apply", "-f", "-", stdin=stateful_set())
        pod = await pod_once(plane)
        pid = program_of(plane, pod)
        assert os.stat(f"/proc/{pid}").st_uid != 0 or os.geteuid() != 0
        assert in_memory(pod)
        assert plane.stop() == 0, plane.output
        assert not lives(pid)
        assert not in_memory(pod)
