"""SIGTERM: no longer ready, then no new connections, watches ended where clients can go on, answers for who has asked."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import kubernetes
import pytest
from kubernetes.informer import ADDED, DELETED, MODIFIED, SharedInformer
from tests.apiserver.instances.pairs import CONFIG_MAPS, Pair, config_map, create, pair, revision
from tests.kit.balancer import Balancer
from tests.kit.http import PATIENCE, Http
from tests.kit.kubectl import Kubectl, newest
from tests.kit.pilothouse_server import PilothouseServer
from tests.kit.servers import Target
from tests.kit.waiting import eventually

LONG_DELAY = ("--shutdown-delay-duration", "10m")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[PilothouseServer]:
    made = PilothouseServer(tmp_path / "server", "memory")
    yield made
    made.process.kill()


@pytest.fixture
def patient(tmp_path: Path) -> Iterator[PilothouseServer]:
    """A server that would take ten minutes before it stops."""
    made = PilothouseServer(tmp_path / "patient", "memory", flags=LONG_DELAY)
    yield made
    made.process.kill()


async def code(server: PilothouseServer) -> int:
    return await asyncio.to_thread(server.process.popen.wait, PATIENCE)


def terminate(server: PilothouseServer, number: signal.Signals = signal.SIGTERM) -> None:
    server.process.popen.send_signal(number)


async def until_not_ready(target: Target) -> None:
    async def is_leaving() -> bool:
        return await asyncio.to_thread(target.fetch, "/readyz") == 500

    await eventually(is_leaving)


async def test_it_serves_on_for_a_while_but_is_not_ready(patient: PilothouseServer) -> None:
    async with Http.to(patient.target) as http:
        before = await http.get(CONFIG_MAPS)
        async with http.watch(CONFIG_MAPS, resourceVersion=await revision(http)) as watch:
            terminate(patient)
            await until_not_ready(patient.target)
            assert (await http.get("/livez")).status == 200
            written = await create(http, "late")
            assert (await watch.next()).version == written
            after = await http.get(CONFIG_MAPS)
    assert "Connection" not in before.headers
    assert after.headers["Connection"] == "close"
    assert patient.process.popen.poll() is None


@pytest.mark.parametrize("numbers", [(signal.SIGTERM, signal.SIGTERM), (signal.SIGINT, signal.SIGTERM)])
async def test_a_second_signal_is_in_a_hurry(
    patient: PilothouseServer, numbers: tuple[signal.Signals, signal.Signals]
) -> None:
    terminate(patient, numbers[0])
    await until_not_ready(patient.target)
    terminate(patient, numbers[1])
    assert await code(patient) == 0


async def test_watches_end_with_the_mark_to_go_on_from(server: PilothouseServer) -> None:
    async with Http.to(server.target) as http:
        start = await revision(http)
        written = [await create(http, f"c{n}") for n in range(3)]
        async with (
            http.watch(CONFIG_MAPS, resourceVersion=start, allowWatchBookmarks="true") as marked,
            http.watch(CONFIG_MAPS, resourceVersion=start) as plain,
        ):
            assert [event.version for event in await plain.take(3)] == written
            terminate(server)
            told = await marked.rest()
            assert await plain.rest() == []
    assert [event.type for event in told] == ["ADDED", "ADDED", "ADDED", "BOOKMARK"]
    assert told[-1].version >= written[-1]
    assert await code(server) == 0


async def test_who_has_begun_to_ask_gets_an_answer(server: PilothouseServer) -> None:
    body = json.dumps(config_map("half")).encode()
    head = f"POST {CONFIG_MAPS} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    head += f"Content-Length: {len(body)}\r\n\r\n"
    host, _, port = server.target.url.removeprefix("https://").partition(":")
    async with Http.to(server.target) as http:
        reader, writer = await asyncio.open_connection(host, int(port), ssl=server.target.trust())
        writer.write(head.encode() + body[:20])
        await writer.drain()
        # A later request on another connection is answered: by then the half one has arrived.
        async with http.watch(CONFIG_MAPS, resourceVersion=await revision(http)) as watch:
            terminate(server)
            assert await watch.rest() == []
    with pytest.raises(OSError):
        await asyncio.open_connection(host, int(port))
    writer.write(body[20:])
    answer = await asyncio.wait_for(reader.read(), PATIENCE)
    assert answer.startswith(b"HTTP/1.1 201 Created\r\n")
    assert b"\r\nConnection: close\r\n" in answer
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["metadata"]["name"] == "half"
    writer.close()
    assert await code(server) == 0


@pytest.fixture
def two(tmp_path: Path) -> Iterator[Pair]:
    with pair(tmp_path) as made:
        yield made


@pytest.mark.etcd
@pytest.mark.clients
async def test_an_informer_of_the_official_client_goes_on_elsewhere(two: Pair, tmp_path: Path) -> None:
    count, before = 60, 20
    async with (
        Balancer.before([two.one.target, two.two.target], tmp_path) as balancer,
        Http.to(two.two.target) as http,
    ):
        with official_client(balancer.target) as api:
            core = kubernetes.client.CoreV1Api(api)
            informer = SharedInformer(core.list_namespaced_config_map, namespace="default")
            seen: list[tuple[str, int]] = []
            for kind in (ADDED, MODIFIED, DELETED):
                informer.add_event_handler(kind, partial(note, seen, kind))
            informer.start()
            expected = [("ADDED", await create(http, f"c{n:03}")) for n in range(before)]
            await eventually(lambda: has(seen, before))
            terminate(two.one)
            expected += [("ADDED", await create(http, f"c{n:03}")) for n in range(before, count)]
            assert await code(two.one) == 0
            await eventually(lambda: has(seen, count))
            stopping = asyncio.create_task(asyncio.to_thread(informer.stop))
            await create(http, "last")  # It looks up only when something comes.
            await stopping
    assert seen[:count] == expected


def note(seen: list[tuple[str, int]], kind: str, obj: Any) -> None:
    seen.append((kind, int(obj.metadata.resource_version)))


async def has(seen: list[Any], count: int) -> bool:
    return len(seen) >= count


def official_client(target: Target) -> Any:
    configuration = kubernetes.client.Configuration(host=target.url)
    configuration.ssl_ca_cert = str(target.access.ca)
    configuration.cert_file, configuration.key_file = str(target.access.cert), str(target.access.key)
    return kubernetes.client.ApiClient(configuration)


@pytest.mark.etcd
@pytest.mark.kubectl
async def test_kubectl_wait_goes_on_elsewhere(two: Pair, tmp_path: Path) -> None:
    async with (
        Balancer.before([two.one.target, two.two.target], tmp_path) as balancer,
        Http.to(two.two.target) as http,
        Http.to(two.one.target) as stopping,
    ):
        await create(http, "slow")
        kubectl = Kubectl(newest(), balancer.target.kubeconfig, tmp_path / "home")
        waiting = asyncio.create_task(
            kubectl("wait", "--for=jsonpath={.data.value}=done", "configmap/slow", "--timeout=60s")
        )
        await eventually(lambda: watches(stopping))
        terminate(two.one)
        assert await code(two.one) == 0
        (await http.patch(f"{CONFIG_MAPS}/slow", {"data": {"value": "done"}})).expect(200)
        assert "condition met" in (await waiting).ok()


async def watches(http: Http) -> bool:
    """Whether somebody watches config maps."""
    text = (await http.get("/metrics")).text
    return any(
        line.startswith("apiserver_longrunning_requests{") and 'resource="configmaps"' in line
        for line in text.splitlines()
    )
