"""Case 72: several servers on one store are one API. `there` is a second server beside the one that `http` speaks to."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace

import aiohttp
import pytest
from tests.kit.http import Answer, Event, Http, Json, WatchEnded
from tests.kit.kubeconfig import Access
from tests.kit.servers import Server, Target

pytestmark = pytest.mark.conformance

COUNT = 100


@pytest.fixture(scope="module")
def other(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A second instance on the same store."""
    if server.target.name in ("sqlite", "memory"):
        pytest.skip("one process owns this store; several need etcd")
    second = server.beside(tmp_path_factory.mktemp("beside"))
    yield second
    second.close()


@pytest.fixture
async def there(other: Server) -> AsyncIterator[Http]:
    async with Http.to(other.target) as client:
        yield client


def config_map(name: str, value: str = "0") -> Json:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name},
        "data": {"value": value},
    }


def collection(ns: str) -> str:
    return f"/api/v1/namespaces/{ns}/configmaps"


def version(obj: Json) -> int:
    return int(obj["metadata"]["resourceVersion"])


async def revision(http: Http, path: str) -> str:
    listed = (await http.get(path, limit=1)).expect(200)
    return str(listed["metadata"]["resourceVersion"])


async def test_case_72_what_one_acknowledged_the_other_shows(http: Http, there: Http, ns: str) -> None:
    path = collection(ns)
    missed = []
    async with http.watch(path, resourceVersion=await revision(http, path)) as watch:
        created = {}
        for n in range(COUNT):
            name = f"c{n:03}"
            made = (await there.post(path, config_map(name))).expect(201)
            read, listed = await http.get(f"{path}/{name}"), await http.get(path)
            created[name] = made
            if read.status != 200 or read.json != made:
                missed.append(f"GET {name}")
            if {item["metadata"]["name"] for item in listed.expect(200)["items"]} != set(created):
                missed.append(f"LIST with {name}")
        events = await watch.take(COUNT)

    assert missed == []
    assert [(event.type, event.name, event.version) for event in events] == [
        ("ADDED", name, version(made)) for name, made in created.items()
    ]


async def test_case_72_revisions_are_one_sequence(http: Http, there: Http, ns: str) -> None:
    path = collection(ns)
    live = (await http.post(path, config_map("a"))).expect(201)
    first = version(live)
    versions = [first]
    for n in range(20):
        # The other one wrote it last: what it answered is good enough to write here, and what was before is not.
        writer = (there, http)[n % 2]
        stale = live
        live = (await writer.put(f"{path}/a", {**live, "data": {"value": str(n + 1)}})).expect(200)
        versions.append(version(live))
        assert (await writer.put(f"{path}/a", {**stale, "data": {"value": "stale"}})).status == 409

    assert versions == sorted(set(versions))
    for reader in (http, there):
        async with reader.watch(path, resourceVersion=str(first)) as watch:
            events = await watch.take(20)
        assert [event.version for event in events] == versions[1:]
        assert [event.object["data"]["value"] for event in events] == [str(n + 1) for n in range(20)]


async def test_case_72_a_list_of_one_is_paged_through_at_the_other(http: Http, there: Http, ns: str) -> None:
    path = collection(ns)
    for n in range(9):
        (await http.post(path, config_map(f"c{n}"))).expect(201)

    first = (await there.get(path, limit=4)).expect(200)
    (await there.post(path, config_map("later"))).expect(201)
    second = (await http.get(path, limit=4, **{"continue": first["metadata"]["continue"]})).expect(200)
    third = (await there.get(path, limit=4, **{"continue": second["metadata"]["continue"]})).expect(200)

    pages = [first, second, third]
    names = [item["metadata"]["name"] for page in pages for item in page["items"]]
    assert names == [f"c{n}" for n in range(9)]
    assert len({page["metadata"]["resourceVersion"] for page in pages}) == 1


async def test_case_72_tokens_of_one_are_good_at_the_other(http: Http, there: Http, ns: str) -> None:
    accounts = f"/api/v1/namespaces/{ns}/serviceaccounts"
    (await http.post(accounts, {"metadata": {"name": "robot"}})).expect(201)
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    for minting, asked in ((http, there), (there, http)):
        token = (await minting.post(f"{accounts}/robot/token", request)).expect(201)["status"]["token"]
        async with Http.to(as_bearer(asked.target, token)) as robot:
            review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
            said = (await robot.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", review)).expect(201)
        assert said["status"]["userInfo"]["username"] == f"system:serviceaccount:{ns}:robot"


def as_bearer(target: Target, token: str) -> Target:
    return replace(target, access=Access(target.access.url, target.access.ca, token=token))


async def test_case_72_when_one_is_killed_clients_go_on_at_the_other(
    http: Http, there: Http, other: Server, ns: str
) -> None:
    path = collection(ns)
    start = await revision(there, path)
    seen: list[Event] = []
    async with there.watch(path, resourceVersion=start) as watch:
        for n in range(10):
            (await there.post(path, config_map(f"c{n}"))).expect(201)
        seen += await watch.take(7)
        other.process.kill()
        with contextlib.suppress(aiohttp.ClientError):
            while True:  # What was on its way may still arrive; then the connection is gone.
                seen.append(await watch.next())
    for n in range(10, 20):
        (await http.post(path, config_map(f"c{n}"))).expect(201)
    async with http.watch(path, resourceVersion=str(seen[-1].version)) as watch:
        seen += await watch.take(20 - len(seen))
    await asyncio.to_thread(other.revive)

    assert [(event.type, event.name) for event in seen] == [("ADDED", f"c{n}") for n in range(20)]


async def test_case_72_one_that_just_started_tells_no_lies(
    http: Http, there: Http, other: Server, ns: str
) -> None:
    path = collection(ns)
    start = await revision(http, path)
    other.process.kill()
    starting = asyncio.create_task(asyncio.to_thread(other.revive))
    refusals: list[Answer] = []
    async with contextlib.AsyncExitStack() as stack:
        while True:
            try:
                watch = await stack.enter_async_context(there.watch(path, again=False, resourceVersion=start))
            except aiohttp.ClientError:
                # Nobody listens yet.
                assert not starting.done(), starting.exception()
                await asyncio.sleep(0.01)
                continue
            if watch.status == 200:
                break
            refusals.append(await watch.whole())
        expected = [version((await http.post(path, config_map(f"c{n}"))).expect(201)) for n in range(5)]
        try:
            events = await watch.take(5)
        except WatchEnded:
            # One that was begun very early may be ended; the next one has to tell it all.
            watch = await stack.enter_async_context(there.watch(path, resourceVersion=start))
            events = await watch.take(5)
    await starting

    assert [event.version for event in events] == expected
    assert {refusal.status for refusal in refusals} <= {429, 500, 503}
    for refusal in refusals:
        if refusal.status == 429:
            assert refusal.message.endswith("storage is (re)initializing")
            assert refusal.headers["Retry-After"] == "1"
