"""Case 73: a server that ends and starts again."""

from __future__ import annotations

import pytest
from tests.kit.databases import Databases
from tests.kit.http import Http
from tests.kit.servers import Server
from tests.kit.waiting import eventually

pytestmark = pytest.mark.conformance


async def test_case_73_versions_go_on_and_no_event_is_lost(
    dbs: Databases, http: Http, lasting: Server
) -> None:
    before = await dbs.create("a", replicas=1)
    start = int(before["metadata"]["resourceVersion"])
    changed = (await http.patch(dbs.at("a"), {"spec": {"replicas": 2}})).expect(200)
    lasting.restart()

    async def is_served() -> bool:
        return (await http.get(dbs.at("a"))).status == 200

    await eventually(is_served)
    assert await dbs.read("a") == changed
    after = await dbs.create("b")
    assert int(after["metadata"]["resourceVersion"]) > int(changed["metadata"]["resourceVersion"]) > start

    # From the old version on: either everything, or an honest word that it is forgotten.
    async with http.watch(dbs.path(), resourceVersion=str(start)) as watch:
        first = await watch.next()
        if first.type == "ERROR":
            assert first.object["code"] == 410
        else:
            events = [first, await watch.next()]
            assert [(event.type, event.name) for event in events] == [("MODIFIED", "a"), ("ADDED", "b")]
    async with http.watch(dbs.path(), resourceVersion=after["metadata"]["resourceVersion"]) as watch:
        await dbs.create("c")
        assert (await watch.next()).name == "c"
