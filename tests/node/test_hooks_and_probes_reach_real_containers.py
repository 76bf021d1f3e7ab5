"""Hooks and probes, run inside containers and asked over the network."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from tests.kit.processes import free_port
from tests.kit.waiting import eventually
from tests.node.real import FOREVER, RealNode, real_node, running_with, shell
from tests.node.stage import container, is_ready, state

from pilothouse.api.objects import Object


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
            return not running_with(mark)

        await eventually(gone)


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


@pytest.mark.parametrize("kind", ["httpGet", "tcpSocket"])
async def test_nobody_there_is_told_in_kubelets_words(tmp_path: Path, kind: str) -> None:
    port = free_port()
    async with real_node(tmp_path) as node:
        probe = {kind: {"host": "127.0.0.1", "port": port}, "periodSeconds": 1}
        pod = await node.pod({"containers": [shell(FOREVER, readinessProbe=probe)]})
        await eventually(lambda: _unhealthy(node, pod))
        [told] = {each for each in await node.events(pod) if "Readiness probe failed" in each}
        assert told.endswith(f"dial tcp 127.0.0.1:{port}: connect: connection refused")


async def _unhealthy(node: RealNode, pod: Object) -> bool:
    return any("Readiness probe failed" in message for message in await node.events(pod))
