"""Pods as real processes: what they see, how they are probed, told and ended."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest
from tests.kit.containers import needs_root
from tests.kit.processes import free_port
from tests.kit.waiting import eventually
from tests.node.real import RealNode, real_node, shell
from tests.node.stage import container, is_ready, phase, reason, state

from pilothouse.api.nouns import ConfigMap
from pilothouse.api.objects import Object

FOREVER = "trap 'exit 0' TERM; while :; do sleep 0.05; done"


async def printed(node: RealNode, script: str, **spec: object) -> str:
    """What a container prints that runs to its end."""
    own = dict(spec.pop("container", {}))  # type: ignore[call-overload]
    pod = await node.pod({"restartPolicy": "Never", "containers": [shell(script, **own)], **spec})
    await node.until(lambda pod: phase(pod) in ("Succeeded", "Failed"))
    return node.log(pod)


async def test_a_script_runs_to_its_end(tmp_path: Path) -> None:
    async with real_node(tmp_path) as node:
        assert await printed(node, "echo hello; exit 0") == "hello"


async def test_a_server_runs_until_it_is_deleted(tmp_path: Path) -> None:
    async with real_node(tmp_path) as node:
        pod = await node.pod({"containers": [shell(FOREVER)]})
        await node.until(is_ready)
        await node.delete()
        await node.until_gone()
        assert await node.left() == []
        await eventually(lambda: _is_gone(node.settings.pods / pod.uid))


async def _is_gone(path: Path) -> bool:
    return not is_there(path)


def is_there(path: Path | str) -> bool:
    return os.path.lexists(path)


async def test_the_exit_code_and_the_last_words_are_told(tmp_path: Path) -> None:
    async with real_node(tmp_path) as node:
        script = "echo bye >/dev/termination-log; exit 3"
        await node.pod({"restartPolicy": "Never", "containers": [shell(script)]})
        pod = await node.until(lambda pod: phase(pod) == "Failed")
        ended = container(pod)["state"]["terminated"]
        assert (ended["exitCode"], ended["reason"], ended["message"]) == (3, "Error", "bye\n")


async def test_last_words_may_come_from_the_log(tmp_path: Path) -> None:
    async with real_node(tmp_path) as node:
        failing = shell("echo one; echo two >&2; exit 1", terminationMessagePolicy="FallbackToLogsOnError")
        await node.pod({"restartPolicy": "Never", "containers": [failing]})
        pod = await node.until(lambda pod: phase(pod) == "Failed")
        assert set(container(pod)["state"]["terminated"]["message"].split()) == {"one", "two"}


async def test_last_words_are_cut_to_four_kilobytes(tmp_path: Path) -> None:
    async with real_node(tmp_path) as node:
        script = "head -c 9000 /dev/zero | tr '\\0' x > /tmp/words; exit 1"
        failing = shell(script, terminationMessagePath="/tmp/words")
        await node.pod({"restartPolicy": "Never", "containers": [failing]})
        pod = await node.until(lambda pod: phase(pod) == "Failed")
        assert container(pod)["state"]["terminated"]["message"] == "x" * 4096


async def test_an_end_by_a_signal_is_told(tmp_path: Path) -> None:
    async with real_node(tmp_path) as node:
        script = "sh -c 'kill -SEGV $$$$'; exit $?"
        await node.pod({"restartPolicy": "Never", "containers": [shell(script)]})
        pod = await node.until(lambda pod: phase(pod) == "Failed")
        assert container(pod)["state"]["terminated"]["exitCode"] == 128 + signal.SIGSEGV


async def test_a_container_is_process_one_with_a_host_name_of_its_own(tmp_path: Path) -> None:
    async with real_node(tmp_path) as node:
        assert (await printed(node, "echo $$$$; hostname", hostname="db-7")).split() == ["1", "db-7"]


async def test_the_host_name_is_the_pods(tmp_path: Path) -> None:
    async with real_node(tmp_path) as node:
        assert (await printed(node, "hostname; echo $HOSTNAME")).split() == ["web-0", "web-0"]


async def test_mounts_are_where_the_manifest_says_and_nowhere_else(tmp_path: Path) -> None:
    async with real_node(tmp_path) as node:
        mounts = [{"name": "data", "mountPath": "/srv/deep/data"}]
        said = await printed(
            node,
            "echo kept > /srv/deep/data/file; cat /srv/deep/data/file",
            container={"volumeMounts": mounts},
            volumes=[{"name": "data", "emptyDir": {}}],
        )
        assert said == "kept"
        assert not is_there("/srv/deep")


async def test_containers_of_a_pod_share_its_volumes(tmp_path: Path) -> None:
    async with real_node(tmp_path) as node:
        mounts = {"volumeMounts": [{"name": "data", "mountPath": "/data"}]}
        pod = await node.pod(
            {
                "restartPolicy": "Never",
                "initContainers": [shell("echo made > /data/file", "init", **mounts)],
                "containers": [shell("cat /data/file", **mounts)],
                "volumes": [{"name": "data", "emptyDir": {}}],
            }
        )
        await node.until(lambda pod: phase(pod) == "Succeeded")
        assert node.log(pod) == "made"


async def test_the_nodes_own_folder_is_not_seen_from_inside(tmp_path: Path) -> None:
    async with real_node(tmp_path) as node:
        assert await printed(node, f"ls -A {node.settings.data} 2>/dev/null | wc -l") == "0"


@pytest.mark.parametrize("others", [1, 300])
async def test_nor_when_something_is_mounted_beside_it(tmp_path: Path, others: int) -> None:
    for number in range(others):
        (tmp_path / f"other-{number}").mkdir()
    async with real_node(tmp_path) as node:
        said = await printed(
            node,
            f"ls -A {node.settings.data} 2>/dev/null | wc -l; ls {tmp_path}/here",
            container={"volumeMounts": [{"name": "data", "mountPath": f"{tmp_path}/here/data"}]},
            volumes=[{"name": "data", "emptyDir": {}}],
        )
        assert said.split() == ["0", "data"]


async def test_a_volume_may_lie_over_the_folder_that_has_the_nodes(tmp_path: Path) -> None:
    async with real_node(tmp_path) as node:
        said = await printed(
            node,
            f"ls -A {tmp_path} | wc -l",
            container={"volumeMounts": [{"name": "data", "mountPath": str(tmp_path)}]},
            volumes=[{"name": "data", "emptyDir": {}}],
        )
        assert said == "0"


async def test_variables_come_from_the_pod_and_from_config_maps(tmp_path: Path) -> None:
    async with real_node(tmp_path) as node:
        made = {"metadata": {"name": "settings", "namespace": "default"}, "data": {"mode": "fast"}}
        await node.api.create(ConfigMap, made)
        env = [
            {"name": "NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"name": "ADDRESS", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
            {"name": "MODE", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "mode"}}},
            {"name": "ALL", "value": "$(NAME)/$(MODE)"},
        ]
        assert await printed(node, "echo $ALL $ADDRESS", container={"env": env}) == "web-0/fast 127.9.0.1"


@needs_root
async def test_a_container_runs_as_whom_it_asks_for(tmp_path: Path) -> None:
    async with real_node(tmp_path) as node:
        os.chmod(tmp_path, 0o755)
        context = {"runAsUser": 4321, "runAsGroup": 4322, "fsGroup": 4323}
        said = await printed(node, "id -u; id -g; id -G", securityContext=context)
        assert said.split("\n")[:2] == ["4321", "4322"]
        assert "4323" in said.split("\n")[2]


@needs_root
async def test_capabilities_are_dropped(tmp_path: Path) -> None:
    async with real_node(tmp_path) as node:
        context = {"capabilities": {"drop": ["ALL"]}}
        said = await printed(node, "grep CapBnd /proc/self/status", container={"securityContext": context})
        assert int(said.split()[1], 16) == 0


async def test_a_program_that_is_not_there_is_told(tmp_path: Path) -> None:
    async with real_node(tmp_path) as node:
        missing = {"name": "app", "image": "host/x", "command": ["/no/such/program"]}
        await node.pod({"containers": [missing]})
        pod = await node.until(lambda pod: container(pod).get("lastState", {}).get("terminated"))
        ended = container(pod)["lastState"]["terminated"]
        assert ended["reason"] == "StartError"
        assert "/no/such/program" in ended["message"]


async def test_what_a_container_left_running_ends_with_it(tmp_path: Path) -> None:
    async with real_node(tmp_path) as node:
        mark = f"3{os.getpid() % 10000:05d}.5"
        await printed(node, f"sleep {mark} & sleep {mark} & exit 0")

        async def gone() -> bool:
            return not _running(mark)

        await eventually(gone)


def _running(word: str) -> list[str]:
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                text = (folder / "cmdline").read_bytes()
            except OSError:
                continue
            if word.encode() in text and b"sleep" in text.split(b"\0")[0]:
                found.append(folder.name)
    return found


async def test_a_container_that_takes_no_notice_is_killed(tmp_path: Path) -> None:
    async with real_node(tmp_path) as node:
        script = "trap '' TERM; while :; do sleep 0.05; done"
        await node.pod({"terminationGracePeriodSeconds": 1, "containers": [shell(script)]})
        await node.until(is_ready)
        await node.delete()
        await node.until_gone()
        assert await node.left() == []


async def test_a_container_that_stands_still_is_killed_in_time(tmp_path: Path) -> None:
    async with real_node(tmp_path) as node:
        await node.pod({"terminationGracePeriodSeconds": 1, "containers": [shell(FOREVER)]})
        await node.until(is_ready)
        (one,) = await node.left()
        os.kill(one.pid, signal.SIGSTOP)
        await node.delete()
        await node.until_gone()
        assert await node.left() == []


async def test_the_stop_signal_is_the_manifests(tmp_path: Path) -> None:
    async with real_node(tmp_path) as node:
        script = "trap 'exit 33' QUIT; touch /dev/shm/up; while :; do sleep 0.05; done"
        probe = {"exec": {"command": ["test", "-e", "/dev/shm/up"]}, "periodSeconds": 1}
        own = shell(script, lifecycle={"stopSignal": "SIGQUIT"}, startupProbe=probe)
        await node.pod({"os": {"name": "linux"}, "containers": [own]}, finalizers=["example.com/look"])
        await node.until(is_ready)
        await node.delete()
        pod = await node.until(lambda pod: phase(pod) == "Failed")
        assert container(pod)["state"]["terminated"]["exitCode"] == 33


async def test_hooks_run_inside_the_container(tmp_path: Path) -> None:
    async with real_node(tmp_path) as node:
        hooks = {
            "postStart": {"exec": {"command": ["sh", "-c", "echo hello $(hostname) > /data/hello"]}},
            "preStop": {"exec": {"command": ["sh", "-c", "echo goodbye > /data/goodbye"]}},
        }
        mounts = [{"name": "data", "mountPath": "/data"}]
        pod = await node.pod(
            {
                "containers": [shell(FOREVER, lifecycle=hooks, volumeMounts=mounts)],
                "volumes": [{"name": "data", "emptyDir": {}}],
            }
        )
        await node.until(is_ready)
        folder = tmp_path / "volumes" / pod.uid / "data"
        assert (folder / "hello").read_text() == "hello web-0\n"
        await node.delete()
        await node.until_gone()
        assert (folder / "goodbye").read_text() == "goodbye\n"


async def test_an_exec_probe_sees_what_the_container_sees(tmp_path: Path) -> None:
    async with real_node(tmp_path) as node:
        probe = {"exec": {"command": ["test", "-e", "/data/ready"]}, "periodSeconds": 1}
        mounts = [{"name": "data", "mountPath": "/data"}]
        pod = await node.pod(
            {
                "containers": [shell(FOREVER, readinessProbe=probe, volumeMounts=mounts)],
                "volumes": [{"name": "data", "emptyDir": {}}],
            }
        )
        await node.until(lambda pod: state(pod) == "running")
        assert not is_ready(await node.until(lambda pod: True))
        (tmp_path / "volumes" / pod.uid / "data" / "ready").touch()
        await node.until(is_ready)


async def test_a_probe_that_takes_too_long_is_not_left_running(tmp_path: Path) -> None:
    async with real_node(tmp_path) as node:
        mark = f"4{os.getpid() % 10000:05d}.25"
        probe = {"exec": {"command": ["sleep", mark]}, "periodSeconds": 1, "timeoutSeconds": 1}
        pod = await node.pod({"containers": [shell(FOREVER, readinessProbe=probe)]})
        await eventually(lambda: _unhealthy(node, pod))
        await node.delete()
        await node.until_gone()

        async def gone() -> bool:
            return not _running(mark)

        await eventually(gone)


async def test_a_hook_may_ask_over_http(tmp_path: Path) -> None:
    asked = asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if (await reader.readline()).startswith(b"GET /bye "):
            asked.set()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server, real_node(tmp_path) as node:
        port = server.sockets[0].getsockname()[1]
        hooks = {"preStop": {"httpGet": {"path": "/bye", "host": "127.0.0.1", "port": port}}}
        await node.pod({"containers": [shell(FOREVER, lifecycle=hooks)]})
        await node.until(is_ready)
        await node.delete()
        await node.until_gone()
        assert asked.is_set()


SERVER = """
import http.server, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        place = {"/moved": (302, "/well"), "/away": (302, "http://elsewhere.invalid/")}.get(self.path)
        code = place[0] if place else {"/well": 200, "/sick": 500}.get(self.path, 404)
        self.send_response(code)
        if place: self.send_header("Location", place[1])
        self.end_headers()
        self.wfile.write(self.headers.get("X-Asked", "").encode())
    def log_message(self, *args): pass
http.server.ThreadingHTTPServer((sys.argv[1], int(sys.argv[2])), Handler).serve_forever()
"""


@pytest.mark.parametrize(
    ("probe", "expected"),
    [
        ({"httpGet": {"path": "/well", "port": "web"}}, True),
        ({"httpGet": {"path": "/moved", "port": "web"}}, True),
        ({"httpGet": {"path": "/away", "port": "web"}}, True),
        ({"httpGet": {"path": "/sick", "port": "web"}}, False),
        ({"httpGet": {"path": "/none", "port": "web"}}, False),
        ({"tcpSocket": {"port": "web"}}, True),
        ({"tcpSocket": {"port": 1}}, False),
    ],
)
async def test_servers_are_asked_over_the_network(
    tmp_path: Path, probe: dict[str, object], expected: bool
) -> None:
    port = free_port()
    async with real_node(tmp_path) as node:
        server = {
            "name": "app",
            "image": "host/python3",
            "command": ["python3", "-c", SERVER, "$(IP)", str(port)],
            "env": [{"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
            "ports": [{"name": "web", "containerPort": port}],
            "readinessProbe": {**probe, "periodSeconds": 1, "timeoutSeconds": 5},
            "startupProbe": {"tcpSocket": {"port": "web"}, "periodSeconds": 1, "failureThreshold": 30},
        }
        await node.pod({"terminationGracePeriodSeconds": 0, "containers": [server]})
        pod = await node.until(lambda pod: container(pod).get("started"))
        if expected:
            await node.until(is_ready)
        else:
            await eventually(lambda: _unhealthy(node, pod))
            assert not is_ready(await node.until(lambda pod: True))


async def _unhealthy(node: RealNode, pod: Object) -> bool:
    return any("Readiness probe failed" in message for message in await node.events(pod))


async def test_an_agent_adopts_what_runs(tmp_path: Path) -> None:
    async with real_node(tmp_path) as node:
        await node.pod({"containers": [shell(FOREVER)]})
        before = await node.until(is_ready)
        (one,) = await node.left()
        await node.stop_agent()
        node.start_agent()
        await node.delete()
        await node.until_gone()
        assert await node.left() == []
        assert not is_there(f"/proc/{one.pid}")
        assert container(before)["restartCount"] == 0


async def test_an_end_without_an_agent_is_found_with_its_code(tmp_path: Path) -> None:
    async with real_node(tmp_path) as node:
        script = "trap 'exit 9' TERM; while :; do sleep 0.05; done"
        await node.pod({"restartPolicy": "Never", "containers": [shell(script)]})
        await node.until(is_ready)
        (one,) = await node.left()
        await node.stop_agent()
        one.kill(signal.SIGTERM)
        await one.exited()
        node.start_agent()
        pod = await node.until(lambda pod: phase(pod) == "Failed")
        assert container(pod)["state"]["terminated"]["exitCode"] == 9


async def test_a_shim_that_is_killed_takes_its_container_with_it_and_both_come_back(tmp_path: Path) -> None:
    async with real_node(tmp_path) as node:
        await node.pod({"containers": [shell(FOREVER)]})
        await node.until(is_ready)
        (one,) = await node.left()
        os.kill(one.state.shim.pid, signal.SIGKILL)
        pod = await node.until(lambda pod: container(pod).get("restartCount") == 1 and is_ready(pod))
        assert container(pod)["lastState"]["terminated"]["reason"] == "ContainerStatusUnknown"
        assert len(await node.left()) == 1


async def test_the_log_of_the_instance_before_is_kept(tmp_path: Path) -> None:
    async with real_node(tmp_path) as node:
        mounts = {"volumeMounts": [{"name": "data", "mountPath": "/data"}]}
        script = f"test -e /data/x && {{ echo second; {FOREVER}; }}; touch /data/x; echo first; exit 1"
        await node.pod(
            {"containers": [shell(script, **mounts)], "volumes": [{"name": "data", "emptyDir": {}}]}
        )
        await node.until(lambda pod: container(pod).get("restartCount") == 1 and is_ready(pod))
        assert node.agent is not None
        now = node.agent.whereabouts.find("default", "web-0", "app")
        before = node.agent.whereabouts.find("default", "web-0", "app", previous=True)
        assert "first" in before.log.read_text()

        async def said() -> bool:
            return "second" in now.log.read_text()

        await eventually(said)
        assert now.container is not None
        assert before.container is None


async def test_too_much_memory_kills_and_says_so(tmp_path: Path) -> None:
    async with real_node(tmp_path) as node:
        greedy = {
            "name": "app",
            "image": "host/python3",
            "command": ["python3", "-c", "x = bytearray(200 * 2**20); print(len(x))"],
            "resources": {"limits": {"memory": "32Mi"}},
        }
        await node.pod({"restartPolicy": "Never", "containers": [greedy]})
        pod = await node.until(lambda pod: phase(pod) in ("Failed", "Succeeded"))
        if lacking := pod.condition("pilothouse.io/LimitsEnforced"):
            pytest.skip(f"this machine can't limit memory: {lacking['message']}")
        assert reason(pod) == "OOMKilled"
        assert container(pod)["state"]["terminated"]["exitCode"] == 137


async def test_a_read_only_root_lets_only_volumes_be_written(tmp_path: Path) -> None:
    async with real_node(tmp_path) as node:
        own = {
            "securityContext": {"readOnlyRootFilesystem": True},
            "volumeMounts": [
                {"name": "data", "mountPath": "/data"},
                {"name": "data", "mountPath": "/usr/share"},
                {"name": "more", "mountPath": "/usr/more"},
            ],
        }
        places = "/ /tmp /var/tmp /etc /usr /data /usr/share /usr/more /dev/shm"
        script = f"for each in {places}; do touch $each/probe 2>&1 && echo $each; done"
        volumes = [{"name": "data", "emptyDir": {}}, {"name": "more", "emptyDir": {}}]
        said = await printed(node, script, container=own, volumes=volumes)
        written = [line for line in said.splitlines() if line.startswith("/")]
        assert written == ["/data", "/usr/share", "/usr/more", "/dev/shm"]


async def test_privileges_are_not_gained_where_that_is_refused(tmp_path: Path) -> None:
    async with real_node(tmp_path) as node:
        own = {"securityContext": {"allowPrivilegeEscalation": False}}
        assert (await printed(node, "grep NoNewPrivs /proc/self/status", container=own)).split()[1] == "1"
