"""The two probe ports answer one question each, and show figures to Prometheus."""

from __future__ import annotations

import asyncio
import contextlib
import urllib.error
import urllib.request

from tests.kit.processes import free_port

from pilothouse.pilot.probe_server import MOST_CONNECTIONS, serving


def get(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refused:
        return refused.code, refused.read().decode()


async def test_nav_P29_a_check_that_fails_is_500_with_the_reason() -> None:
    ready, live = free_port(), free_port()
    problems = ["it is still starting"]
    questions = {ready: lambda: "".join(problems), live: lambda: ""}
    async with serving("127.0.0.1", questions, lambda: "up 1\n"):
        assert await asyncio.to_thread(get, f"http://127.0.0.1:{ready}/") == (500, "it is still starting\n")
        assert await asyncio.to_thread(get, f"http://127.0.0.1:{live}/healthz") == (200, "")
        assert await asyncio.to_thread(get, f"http://127.0.0.1:{live}/metrics") == (200, "up 1\n")
        problems.clear()
        assert await asyncio.to_thread(get, f"http://127.0.0.1:{ready}/") == (200, "")


async def test_connections_that_say_nothing_keep_no_probe_out() -> None:
    port = free_port()
    async with serving("127.0.0.1", {port: lambda: ""}, lambda: "up 1\n"):
        silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(3 * MOST_CONNECTIONS)]
        assert await asyncio.to_thread(get, f"http://127.0.0.1:{port}/") == (200, "")
        # The oldest were closed for the newer, long before they would have been for their silence.
        async with asyncio.timeout(5):
            for reader, _ in silent[:MOST_CONNECTIONS]:
                with contextlib.suppress(ConnectionError):
                    assert await reader.read() == b""
        for _, writer in silent:
            writer.close()
