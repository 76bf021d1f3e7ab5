"""A read like an earlier one is answered without the handler, and in every respect as the handler would have answered."""

from __future__ import annotations

import asyncio
import datetime
import json
from typing import Any

from tests.apiserver.audit.scenes import lines_of
from tests.apiserver.server.behind_an_edge import MAP, MAPS, TOKENS, Server
from tests.apiserver.server.wire import Dial, Wire
from tests.kit.core import ADMIN
from tests.kit.rbac_objects import bind, cluster_role, place, rule

from pilothouse.apiserver.authentication.authenticator import Authenticator, read_tokens
from pilothouse.pki.keyring import Keyring


async def read(wire: Wire, path: str = MAP, *headers: str, who: str = "admin") -> Any:
    return await wire.get(path, f"Authorization: Bearer t-{who}", "User-Agent: client/1", *headers)


async def allow(server: Server, *who: str) -> dict[str, Any]:
    """Let users read config maps; the binding that does it."""
    given = cluster_role("reader", rule("get", "configmaps"))
    binding = bind("", "readers", "ClusterRole/reader", *(f"User/{each}" for each in who))
    await server.send("POST", place(given), given)
    await server.send("POST", place(binding), binding)
    return binding


async def test_the_answer_is_the_same(server: Server, dial: Dial) -> None:
    wire = await dial(server.place)
    first, second = await read(wire), await read(wire)
    assert server.asked == [MAP]
    assert (second.status, second.body) == (first.status, first.body)
    assert [name for name, _ in second.headers] == [name for name, _ in first.headers]
    assert second.header("Audit-Id") != first.header("Audit-Id")


async def test_other_objects_of_a_known_client_are_too(server: Server, dial: Dial) -> None:
    await server.send("POST", MAPS, {"metadata": {"name": "b"}})
    wire = await dial(server.place)
    await read(wire)
    assert (await read(wire, f"{MAPS}/b")).json()["metadata"]["name"] == "b"
    assert (await read(await dial(server.place), f"{MAP}?resourceVersion=0&timeout=10s")).status == 200
    assert (await read(wire, "/api/v1/namespaces/default")).json()["kind"] == "Namespace"
    # A connection's first request finds its task still asleep or not; all the others have to be answered at once.
    assert set(server.asked) <= {MAP}


async def test_every_write_shows(server: Server, dial: Dial) -> None:
    wire = await dial(server.place)
    for value in ("2", "3", "4"):
        await read(wire)
        await server.send("PATCH", MAP, {"data": {"k": value}}, "application/merge-patch+json")
        assert (await read(wire)).json()["data"] == {"k": value}
    await server.send("DELETE", MAP)
    assert (await read(wire)).json()["reason"] == "NotFound"


async def test_a_server_that_is_about_to_stop_says_so_here_too(server: Server, dial: Dial) -> None:
    wire = await dial(server.place)
    for _ in range(3):
        assert (await read(wire)).header("Connection") is None
    assert server.asked == [MAP]
    server.place.edge.leave()
    last = await read(wire)
    assert (last.status, last.header("Connection")) == (200, "close")
    assert await wire.rest() == b""


async def test_a_right_that_is_revoked_is_gone_with_the_next_request(server: Server, dial: Dial) -> None:
    binding = await allow(server, "alice")
    wire = await dial(server.place)
    for _ in range(3):
        assert (await read(wire, who="alice")).status == 200
    assert server.asked == [MAP]
    await server.send("DELETE", f"{place(binding)}/readers")
    refused = await read(wire, who="alice")
    assert (refused.status, refused.json()["reason"]) == (403, "Forbidden")


async def test_each_token_has_its_own_rights_on_one_connection(server: Server, dial: Dial) -> None:
    await allow(server, "alice")
    wire = await dial(server.place)
    for who, status in [("alice", 200), ("bob", 403), ("alice", 200), ("nobody", 401), ("bob", 403)] * 2:
        assert (await read(wire, who=who)).status == status


async def test_a_certificate_is_its_connections_alone(server: Server, dial: Dial, keyring: Keyring) -> None:
    peer = keyring.peer(
        keyring.authority(datetime.datetime.now(datetime.UTC)), datetime.datetime.now(datetime.UTC)
    )
    certified = await dial(server.place, certificate=peer.certificate, key=peer.key)
    token = await dial(server.place)
    for _ in range(2):
        # The same bytes: who asks is not in them alone.
        assert (
            (await read(certified, who="bob"))
            .json()["message"]
            .startswith('configmaps "a" is forbidden: User "pilothouse:')
        )
        assert (
            (await read(token, who="bob"))
            .json()["message"]
            .startswith('configmaps "a" is forbidden: User "bob"')
        )


async def test_acting_as_somebody_else_is_judged_each_time(server: Server, dial: Dial) -> None:
    await allow(server, "alice")
    wire = await dial(server.place)
    for who, status in [("alice", 200), ("bob", 403)] * 2:
        assert (await read(wire, MAP, f"Impersonate-User: {who}")).status == status
    assert (await read(wire, MAP, "Impersonate-User: admin", who="alice")).status == 403


async def test_other_forms_are_still_given(server: Server, dial: Dial) -> None:
    wire = await dial(server.place)
    table = "Accept: application/json;as=Table;v=v1;g=meta.k8s.io"
    for _ in range(2):
        assert (await read(wire)).json()["kind"] == "ConfigMap"
        assert (await read(wire, MAP, table)).json()["kind"] == "Table"
        assert (await read(wire, MAP, "Accept: application/yaml")).body.startswith(b"apiVersion")
        assert (await read(wire, f"{MAP}?pretty=1")).body.startswith(b"{\n")
        assert (await read(wire, MAPS)).json()["kind"] == "ConfigMapList"
        assert (await read(wire, f"{MAPS}/none")).status == 404
        assert (await read(wire, f"{MAP}/../a")).status == 400
        assert (await read(wire, f"{MAP}?timeout=soon")).status == 400
        assert (await read(wire, f"{MAP}?resourceVersion=x")).status == 400


async def test_reads_and_writes_take_turns_on_one_connection(server: Server, dial: Dial) -> None:
    wire = await dial(server.place)
    await read(wire)
    for number in range(3):
        body = json.dumps({"metadata": {"name": f"n{number}"}}).encode()
        sent = ["Authorization: Bearer t-admin", "Content-Type: application/json"]
        assert (await wire.get(MAPS, *sent, method="POST", body=body)).status == 201
        # The first one may have to wait until the write is in the cache.
        for _ in range(2):
            assert (await read(wire, f"{MAPS}/n{number}")).status == 200
        assert server.asked.count(f"{MAPS}/n{number}") <= 1


async def test_a_known_request_inside_another_is_not_taken_for_one(server: Server, dial: Dial) -> None:
    wire = await dial(server.place)
    await read(wire)
    known = f"GET {MAP} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer t-admin\r\nUser-Agent: client/1\r\n\r\n"
    head = f"POST {MAPS} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer t-admin\r\n"
    wire.writer.write(f"{head}Content-Length: {len(known)}\r\nExpect: 100-continue\r\n\r\n".encode())
    assert (await wire.head()).status == 100
    # The body comes by itself, and looks just like a request that is known.
    reply = await wire.ask(known.encode())
    assert reply.status in (400, 415)
    assert (await read(wire)).status == 200


async def test_all_are_counted(server: Server, dial: Dial) -> None:
    wire = await dial(server.place)
    for _ in range(5):
        await read(wire)
    (series,) = [each for each in server.requests.series() if each.resource == "configmaps"]
    assert (series.verb, series.codes, sum(series.seconds.counts)) == ("GET", {200: 5}, 5)


async def test_all_are_recorded_alike(server: Server, dial: Dial) -> None:
    wire = await dial(server.place)
    for _ in range(3):
        await read(wire, f"{MAP}?resourceVersion=0")
    await server.trail.flushed(10)
    records = lines_of(server.trail.file.path)
    assert server.asked == [MAP]
    assert len({record.pop("auditID") for record in records}) == 3
    for record in records:
        assert (record["user"]["username"], record["userAgent"]) == ("admin", "client/1")
        for moment in ("requestReceivedTimestamp", "stageTimestamp"):
            assert record.pop(moment)
    assert records[0] == records[1] == records[2]


async def test_they_need_no_place(server: Server, dial: Dial) -> None:
    wire = await dial(server.place)
    await read(wire)
    while server.shares.reads.enter(ADMIN):
        pass
    for user in ("alice", "bob"):
        while server.shares.reads.enter(
            Authenticator(read_tokens(TOKENS, "")).identify(None, f"Bearer t-{user}")
        ):
            pass
    assert (await read(wire)).status == 200


async def test_a_large_object_arrives_whole_each_time(server: Server, dial: Dial) -> None:
    await server.send("POST", MAPS, {"metadata": {"name": "large"}, "data": {"k": "x" * 120_000}})
    wire = await dial(server.place)
    for _ in range(20):
        assert len((await read(wire, f"{MAPS}/large")).json()["data"]["k"]) == 120_000
    assert len(server.asked) == 1


async def test_a_server_that_stops_lets_go_of_connections(server: Server, dial: Dial) -> None:
    wire = await dial(server.place)
    await read(wire)
    await read(wire)
    await server.place.edge.stop(5.0)
    async with asyncio.timeout(60):
        assert await wire.rest() == b""
