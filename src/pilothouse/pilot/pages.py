"""Probes and figures over plain HTTP, at the instance's own address.

    async with serving(address, {12001: captain.readiness, 12000: captain.liveness}, captain.figures): ...

Any path answers the port's question: 200, or 500 with the reason. ``/metrics`` has the figures, at either port.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager

from aiohttp import web

from pilothouse.base.exposition import CONTENT_TYPE

Question = Callable[[], str]
"""What is wrong; empty if nothing is."""


@asynccontextmanager
async def serving(
    host: str, questions: Mapping[int, Question], figures: Callable[[], str]
) -> AsyncIterator[None]:
    """Within the context. Raises ``OSError`` where a port can't be had."""
    async with AsyncExitStack() as stack:
        for port, question in questions.items():
            runner = web.ServerRunner(web.Server(_answering(question, figures), access_log=None))
            await runner.setup()
            stack.push_async_callback(runner.cleanup)
            await web.TCPSite(runner, host, port).start()
        yield


def _answering(
    question: Question, figures: Callable[[], str]
) -> Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]:
    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        if request.path == "/metrics":
            return web.Response(body=figures().encode(), headers={"Content-Type": CONTENT_TYPE})
        problem = question()
        return web.Response(status=500 if problem else 200, text=f"{problem}\n" if problem else "")

    return answer
