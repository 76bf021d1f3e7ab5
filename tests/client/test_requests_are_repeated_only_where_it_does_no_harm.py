from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

import pytest
from tests.client.scripted import Reply, Scripted, scripted

from pilothouse.api.kind_names import ConfigMap, Pod
from pilothouse.base.clock import SystemClock
from pilothouse.client.access import Access
from pilothouse.client.api import Api
from pilothouse.client.fence import LeadershipFence
from pilothouse.client.http_transport import HttpTransport
from pilothouse.client.retries import DeadlineExceeded, OutcomeUnknown
from pilothouse.client.subresources import evict
from pilothouse.client.transport import (
    BadAnswer,
    ClientRequest,
    ClientResponse,
    NotSent,
    ResponseStreamReader,
)
from pilothouse.meta import errors
from pilothouse.meta.errors import StatusCauseDetail, StatusError

BODY = {"metadata": {"name": "a", "namespace": "n"}}
OBJECT = b'{"metadata":{"name":"a","namespace":"n","resourceVersion":"7"}}'


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Scripted]:
    async with scripted(tmp_path) as server:
        yield server


@pytest.fixture
async def api(server: Scripted) -> AsyncIterator[Api]:
    async with HttpTransport.open(server.access(), SystemClock(), agent="test") as transport:
        yield Api(transport, Random(1), manager="test")


def refusal(code: int, *, retry_after: int = 0, causes: tuple[StatusCauseDetail, ...] = ()) -> Reply:
    status = StatusError(code, "", "not now", retry_after=retry_after, causes=causes)
    headers = {"Retry-After": str(retry_after)} if retry_after else {}
    return Reply(code, json.dumps(status.to_dict()).encode(), headers)


@pytest.mark.parametrize("code", [429, 503])
async def test_a_server_that_says_when_is_asked_again_then(api: Api, server: Scripted, code: int) -> None:
    server.answers += [refusal(code, retry_after=1), Reply(201, OBJECT)]
    assert (await api.create(ConfigMap, BODY)).revision == 7
    assert len(server.asked) == 2


async def test_a_wait_beyond_the_deadline_is_not_begun(api: Api, server: Scripted) -> None:
    server.answers += [refusal(429, retry_after=600)]
    with pytest.raises(StatusError) as told:
        await api.create(ConfigMap, BODY)
    assert (told.value.code, told.value.retry_after, len(server.asked)) == (429, 600, 1)


async def test_an_eviction_that_a_budget_forbids_is_not_tried_again(api: Api, server: Scripted) -> None:
    server.answers += [
        refusal(429, retry_after=1, causes=(StatusCauseDetail("DisruptionBudget", "one must stay"),))
    ]
    with pytest.raises(StatusError, match="not now"):
        await evict(api, "a", "n")
    assert len(server.asked) == 1


async def test_a_read_that_is_cut_off_is_made_again(api: Api, server: Scripted) -> None:
    server.answers += [Reply(cut=True), refusal(503), Reply(200, OBJECT)]
    assert (await api.get(ConfigMap, "a", "n")).name == "a"
    assert len(server.asked) == 3


async def test_a_write_that_is_cut_off_is_not_made_again_and_says_so(api: Api, server: Scripted) -> None:
    server.answers += [Reply(cut=True)]
    with pytest.raises(OutcomeUnknown, match="may have been carried out"):
        await api.create(ConfigMap, BODY)
    assert len(server.asked) == 1


async def test_nor_is_a_write_on_a_connection_that_was_in_use_before(api: Api, server: Scripted) -> None:
    writes: list[Callable[[], Awaitable[object]]] = [
        lambda: api.update(ConfigMap, BODY),
        lambda: api.delete(ConfigMap, "a", "n"),
    ]
    for write in writes:
        server.answers += [Reply(200, OBJECT), Reply(cut=True)]
        await api.get(ConfigMap, "a", "n")
        with pytest.raises(OutcomeUnknown):
            await write()
    assert [asked.method for asked in server.asked] == ["GET", "PUT", "GET", "DELETE"]


async def test_an_apply_that_is_cut_off_is_made_again(api: Api, server: Scripted) -> None:
    server.answers += [Reply(cut=True), Reply(200, OBJECT)]
    assert (await api.apply(ConfigMap, BODY)).name == "a"
    assert len(server.asked) == 2


async def test_a_plain_refusal_of_a_write_is_final(api: Api, server: Scripted) -> None:
    server.answers += [refusal(503)]
    with pytest.raises(StatusError):
        await api.create(ConfigMap, BODY)
    assert len(server.asked) == 1


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_a_server_that_is_not_there_is_reported_as_such(host: str) -> None:
    async with HttpTransport.open(Access(f"https://{host}:1"), SystemClock(), agent="test") as transport:
        api = Api(transport, Random(1), manager="test")
        with pytest.raises(NotSent) as caught:
            await api.create(ConfigMap, BODY, deadline=0.5)
        assert str(caught.value) == f"https://{host}:1 can't be reached: Connection refused"


class Unreachable:
    """A transport to a server that refuses connections."""

    def __init__(self) -> None:
        self.attempts = 0

    async def request(self, call: ClientRequest) -> ClientResponse:
        self.attempts += 1
        raise NotSent("connection refused")

    @asynccontextmanager
    async def stream(self, call: ClientRequest) -> AsyncIterator[ResponseStreamReader]:
        raise NotSent("connection refused")
        yield ResponseStreamReader(200, {}, _nothing())


@pytest.mark.looptime
async def test_a_command_does_not_wait_for_a_server_that_is_not_there() -> None:
    waiting, command = Unreachable(), Unreachable()
    with pytest.raises(NotSent):
        await Api(waiting, Random(1), manager="test").get(ConfigMap, "a", "n")
    with pytest.raises(NotSent):
        await Api(command, Random(1), manager="test", wait_for_server=False).get(ConfigMap, "a", "n")
    assert waiting.attempts > 1
    assert command.attempts == 1


class Silent:
    """A transport on which nothing is ever answered."""

    async def request(self, call: ClientRequest) -> ClientResponse:
        await asyncio.Event().wait()
        raise AssertionError

    @asynccontextmanager
    async def stream(self, call: ClientRequest) -> AsyncIterator[ResponseStreamReader]:
        await asyncio.Event().wait()
        yield ResponseStreamReader(200, {}, _nothing())


async def _nothing() -> AsyncIterator[bytes]:
    return
    yield b""


@pytest.mark.looptime
async def test_every_request_has_a_deadline() -> None:
    api = Api(Silent(), Random(1), manager="test")
    loop = asyncio.get_running_loop()
    with pytest.raises(DeadlineExceeded, match="not answered in 30 s"):
        await api.get(Pod, "a", "n")
    assert loop.time() == pytest.approx(30)
    with pytest.raises(OutcomeUnknown, match="it may have been carried out"):
        await api.create(Pod, BODY, deadline=5)
    assert loop.time() == pytest.approx(35)


def leading(*left: float) -> LeadershipFence:
    """A term that has so much left when it is asked, and asked again."""
    told = iter(left)
    return LeadershipFence("n", "leader", 7, left=lambda: next(told))


async def test_nothing_is_sent_once_the_term_is_over(api: Api, server: Scripted) -> None:
    with pytest.raises(NotSent, match="this process no longer leads"):
        await api.create(ConfigMap, BODY, fence=leading(0.0))
    assert server.asked == []


async def test_nothing_is_sent_again_once_the_term_is_over(api: Api, server: Scripted) -> None:
    server.answers += [Reply(cut=True), Reply(200, OBJECT)]
    with pytest.raises(NotSent, match="this process no longer leads"):
        await api.apply(ConfigMap, BODY, fence=leading(10.0, -1.0))
    assert len(server.asked) == 1


async def test_a_wait_beyond_the_term_is_not_begun(api: Api, server: Scripted) -> None:
    server.answers += [refusal(429, retry_after=5)]
    with pytest.raises(StatusError, match="not now"):
        await api.create(ConfigMap, BODY, fence=leading(4.0))
    assert len(server.asked) == 1


async def test_a_term_that_is_renewed_goes_on(api: Api, server: Scripted) -> None:
    server.answers += [Reply(cut=True), refusal(503), Reply(200, OBJECT)]
    assert (await api.apply(ConfigMap, BODY, fence=leading(1.0, 8.0, 10.0))).name == "a"
    assert len(server.asked) == 3


@pytest.mark.looptime
async def test_no_answer_is_waited_for_beyond_the_term() -> None:
    api = Api(Silent(), Random(1), manager="test")
    loop = asyncio.get_running_loop()
    with pytest.raises(OutcomeUnknown, match="not answered in 4 s"):
        await api.create(Pod, BODY, fence=leading(4.0))
    assert loop.time() == pytest.approx(4)


@pytest.mark.parametrize("body", [b"<html>", b"[]", b'{"metadata":{"name":5}}'])
async def test_what_is_no_object_is_no_answer(api: Api, server: Scripted, body: bytes) -> None:
    server.answers += [Reply(200, body), Reply(200, b'{"items":[' + body + b"]}")]
    with pytest.raises(BadAnswer, match="ConfigMap"):
        await api.get(ConfigMap, "a", "n")
    with pytest.raises(BadAnswer):
        await api.list(ConfigMap, "n")


async def test_a_refusal_by_somebody_in_between_is_quoted(api: Api, server: Scripted) -> None:
    server.answers += [Reply(502, b"<h1>Bad Gateway</h1>")]
    with pytest.raises(StatusError, match="the server answers 502: <h1>Bad Gateway"):
        await api.get(ConfigMap, "a", "n")


async def test_refusals_come_back_as_they_were(api: Api, server: Scripted) -> None:
    told = errors.not_found("pods", "", "web-0")
    server.answers += [Reply(404, json.dumps(told.to_dict()).encode())]
    with pytest.raises(StatusError) as heard:
        await api.get(Pod, "web-0", "n")
    assert heard.value.to_dict() == told.to_dict()


async def test_each_warning_is_logged_once(
    api: Api, server: Scripted, caplog: pytest.LogCaptureFixture
) -> None:
    warned = Reply(200, OBJECT, {"Warning": r'299 - "v1 \"Thing\" is deprecated"'})
    server.answers += [warned, warned]
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            await api.get(ConfigMap, "a", "n")
    assert [record.getMessage() for record in caplog.records] == [
        'the API server warns: v1 "Thing" is deprecated'
    ]


async def test_a_list_whose_pages_expire_is_begun_anew(api: Api, server: Scripted) -> None:
    first = Reply(200, b'{"metadata":{"resourceVersion":"5","continue":"x"},"items":[' + OBJECT + b"]}")
    whole = Reply(200, b'{"metadata":{"resourceVersion":"9"},"items":[' + OBJECT + b"]}")
    server.answers += [first, refusal(410), whole]
    listed = await api.list(ConfigMap, "n")
    assert (len(listed.objects), listed.revision) == (1, 9)
    server.answers += [first, refusal(410)] * 3
    with pytest.raises(StatusError) as expired:
        await api.list(ConfigMap, "n")
    assert expired.value.code == 410
