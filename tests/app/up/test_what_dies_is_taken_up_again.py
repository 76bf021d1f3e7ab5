from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal
import socket
from functools import partial

import pytest
from tests.app.up.manifests import stateful_set
from tests.app.up.watching import groups_of, lives, node_is_ready, pod_once, program_of
from tests.kit.control_planes import UpPlane
from tests.kit.processes import free_port
from tests.kit.waiting import eventually

pytestmark = pytest.mark.long


@pytest.mark.parametrize("name", ["apiserver", "controller-manager", "node"])
async def test_a_role_that_is_killed_is_started_again_and_no_pod_notices(plane: UpPlane, name: str) -> None:
    await plane.kubectl("apply", "-f", "-", stdin=stateful_set())
    pod = await pod_once(plane)
    pid = program_of(plane, pod)
    url, killed = plane.report["url"], plane.role(name)["pid"]
    os.kill(killed, signal.SIGKILL)

    async def back() -> bool:
        role = plane.role(name)
        return bool(role["pid"] != killed and role["state"] == "running")

    await eventually(back)
    assert f"{name} ended (killed by SIGKILL); restarting it" in plane.output
    assert plane.report["url"] == url
    await node_is_ready(plane)
    after = await pod_once(plane)
    assert after["metadata"]["uid"] == pod["metadata"]["uid"]
    assert lives(pid)
    # It is looked after as before: what is asked for comes about.
    await plane.kubectl("scale", "statefulset", "web", "--replicas=2")
    await pod_once(plane, name="web-1")


async def test_an_up_that_is_killed_leaves_pods_alone_which_the_next_one_takes_up(plane: UpPlane) -> None:
    await plane.kubectl("apply", "-f", "-", stdin=stateful_set())
    pod = await pod_once(plane)
    pid = program_of(plane, pod)
    roles = [role["pid"] for role in plane.report["roles"]]
    plane.stop(signal.SIGKILL)

    async def alone() -> bool:
        return not any(map(lives, roles))

    await eventually(alone)
    assert lives(pid)
    plane.start()
    after = await pod_once(plane)
    assert after["metadata"]["uid"] == pod["metadata"]["uid"]
    assert program_of(plane, after) == pid
    assert lives(pid)
    await plane.kubectl("delete", "statefulset", "web")

    async def gone() -> bool:
        return not lives(pid)

    await eventually(gone)


async def test_what_a_killed_up_left_is_brought_down(plane: UpPlane) -> None:
    await plane.kubectl("apply", "-f", "-", stdin=stateful_set())
    pod = await pod_once(plane)
    pid, groups = program_of(plane, pod), groups_of(plane, pod)
    plane.stop(signal.SIGKILL)
    done = plane.run("down")
    assert done.stdout == "down; stopped 1 containers that were left running\n", done.stderr
    assert not lives(pid)
    assert not any(group.exists() for group in groups)


async def test_a_stop_ends_pods_whose_node_has_just_died(plane: UpPlane) -> None:
    await plane.kubectl("apply", "-f", "-", stdin=stateful_set())
    pid = program_of(plane, await pod_once(plane))
    os.kill(plane.role("node")["pid"], signal.SIGKILL)

    async def waiting() -> bool:
        return bool(plane.role("node")["state"] == "waiting")

    await eventually(waiting)
    assert plane.stop() == 0, plane.output
    assert not lives(pid)
    assert "the node did not stop its pods; stopped 1 containers" in plane.output


@pytest.mark.parametrize("how", ["up --keep", "down --keep"])
async def test_pods_that_are_kept_go_on_and_are_taken_up(plane: UpPlane, how: str) -> None:
    if how == "up --keep":
        plane.stop()
        plane.start("--keep")
    await plane.kubectl("apply", "-f", "-", stdin=stateful_set())
    pod = await pod_once(plane)
    pid = program_of(plane, pod)
    if how == "up --keep":
        assert plane.stop() == 0
    else:
        assert plane.run("down", "--keep").stdout == "down; pods keep running\n"
    assert lives(pid)
    plane.start()
    after = await pod_once(plane)
    assert program_of(plane, after) == pid


async def test_who_is_in_a_hurry_does_not_wait_for_the_grace_of_pods(plane: UpPlane) -> None:
    stubborn = "trap '' TERM; while :; do sleep 0.1; done"
    await plane.kubectl("apply", "-f", "-", stdin=stateful_set(script=stubborn, grace=600))
    pid = program_of(plane, await pod_once(plane))
    assert plane.process is not None
    plane.process.popen.send_signal(signal.SIGINT)

    async def stopping() -> bool:
        return bool(plane.role("node")["state"] == "stopping")

    await eventually(stopping)
    assert plane.stop(signal.SIGINT) == 0, plane.output
    assert not lives(pid)


MOMENTS = {
    "it has begun": lambda plane: (plane.data / "up.json").exists(),
    "the server runs": lambda plane: plane.role("apiserver")["state"] == "running",
    "the controllers run": lambda plane: plane.role("controller-manager")["state"] == "running",
    "the node runs": lambda plane: plane.role("node")["state"] == "running",
}


@pytest.mark.parametrize("moment", MOMENTS)
async def test_killed_while_it_starts_it_leaves_nothing_behind_that_the_next_one_minds(
    plane: UpPlane, moment: str
) -> None:
    await plane.kubectl("apply", "-f", "-", stdin=stateful_set())
    pod = await pod_once(plane)
    pid = program_of(plane, pod)
    plane.stop(signal.SIGKILL)
    for _ in range(2):
        process = plane.begin()
        process.wait_until(partial(_so, plane, moment, process.pid), seconds=60)
        process.kill()
    plane.start()
    after = await pod_once(plane)
    assert after["metadata"]["uid"] == pod["metadata"]["uid"]
    assert program_of(plane, after) == pid
    assert lives(pid)


def _so(plane: UpPlane, moment: str, pid: int) -> bool:
    """Whether this process has come so far. Its report is not there at first, and then for a while its predecessor's."""
    try:
        return bool(plane.report["pid"] == pid and MOMENTS[moment](plane))
    except FileNotFoundError:
        return False


SERVICE = """
apiVersion: v1
kind: Service
metadata: {name: db}
spec: {ports: [{name: sql, port: PORT}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: db-1, labels: {kubernetes.io/service-name: db}}
addressType: IPv4
ports: [{name: sql, port: 15433, protocol: TCP}]
endpoints: [{addresses: [127.71.0.1]}]
"""


async def test_nobody_has_the_port_of_a_role_while_it_is_started_again(plane: UpPlane) -> None:
    """As a pod on the same network would: it binds in a loop, and would keep the role from ever coming back."""
    [node] = json.loads((await plane.kubectl("get", "nodes", "-o", "json")).ok())["items"]
    ports = {
        "apiserver": int(plane.report["url"].rpartition(":")[2]),
        "node": node["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"],
    }
    port = free_port()
    (await plane.kubectl("apply", "-f", "-", stdin=SERVICE.replace("PORT", str(port)))).ok()
    service = json.loads((await plane.kubectl("get", "service", "db", "-o", "json")).ok())
    address = service["spec"]["clusterIP"]

    async def listening() -> bool:
        try:
            socket.create_connection((address, port), 5).close()
        except ConnectionRefusedError:
            return False
        except ConnectionResetError:  # The agent listens, and no endpoint answers.
            pass
        return True

    await eventually(listening)
    places = [
        *itertools.product(("127.0.0.1", "0.0.0.0"), ports.values()),
        (address, port),
        ("0.0.0.0", port),
    ]
    killed = {name: plane.role(name)["pid"] for name in ports}
    for pid in killed.values():
        os.kill(pid, signal.SIGKILL)
    tries, had = 0, []

    async def back() -> bool:
        nonlocal tries
        for at in places:
            with socket.socket() as squatter:
                squatter.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                tries += 1
                with contextlib.suppress(OSError):
                    squatter.bind(at)
                    had.append(at)
        roles = [plane.role(name) for name in ports]
        return all(role["pid"] != killed[role["name"]] and role["state"] == "running" for role in roles)

    await eventually(back)
    assert had == [], f"{len(had)} of {tries}"
    await node_is_ready(plane)
    [node] = json.loads((await plane.kubectl("get", "nodes", "-o", "json")).ok())["items"]
    assert node["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"] == ports["node"]
