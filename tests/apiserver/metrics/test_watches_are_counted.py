from __future__ import annotations

import asyncio

from tests.apiserver.metrics.scraped import Scraped
from tests.kit.core import CoreServer

from pilothouse.apiserver.metrics.server_metrics import watch_families
from pilothouse.apiserver.server.messages import Request, Response, StreamChunk, StreamingResponse, User

ADMIN = User("admin", groups=("system:masters",))
MAPS = "/api/v1/namespaces/default/configmaps"


class Sink:
    """Takes whatever comes."""

    closed = False

    def __init__(self) -> None:
        self.lines: asyncio.Queue[bytes] = asyncio.Queue()

    def write(self, chunk: StreamChunk) -> None:
        for line in chunk.data.splitlines():
            self.lines.put_nowait(line)

    def buffered(self) -> int:
        return 0


def test_open_watches_and_what_they_were_sent() -> None:
    """Two watches of two objects that are there and one that comes: six events."""
    with CoreServer() as server:

        async def watched(request: Request) -> Response:
            core, sinks, tasks = server.core, [Sink(), Sink()], []
            for sink in sinks:
                answer = await core.answer(Request("GET", MAPS, "watch=1", user=ADMIN))
                assert isinstance(answer, StreamingResponse)
                tasks.append(asyncio.ensure_future(answer.run(sink)))
                for _ in range(2):
                    await sink.lines.get()
            body = b'{"metadata":{"name":"c"}}'
            headers = {"Content-Type": "application/json"}
            await core.answer(Request("POST", MAPS, headers=headers, body=body, user=ADMIN))
            for sink in sinks:
                await sink.lines.get()
            told = "".join(watch_families(core.watches.fanout)).encode()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            return Response(200, told)

        server.core.serve("/watched", watched)
        for name in ("a", "b"):
            server.send("POST", MAPS, {"metadata": {"name": name}}).expect(201)
        page = Scraped.read(server.send("GET", "/watched").body)
        after = "".join(watch_families(server.core.watches.fanout))
    assert page.value("apiserver_longrunning_requests", resource="configmaps", verb="WATCH") == 2
    assert page.value("apiserver_watch_events_total", kind="ConfigMap", version="v1", group="") == 6
    assert page.value("pilothouse_watches_behind") == 0
    assert "apiserver_longrunning_requests" not in after
