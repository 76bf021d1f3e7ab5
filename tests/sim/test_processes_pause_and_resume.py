"""A process that is frozen does nothing at all; thawed, it goes on where it was, and finds that time has passed."""

from __future__ import annotations

import asyncio

from pilothouse.sim.loop import SeededLoop, process_of


def test_nothing_of_a_frozen_process_runs_and_then_all_of_it_does() -> None:
    with SeededLoop(1) as loop:
        seen: list[tuple[str, float]] = []

        async def tick(name: str) -> None:
            while True:
                await asyncio.sleep(1)
                seen.append((name, loop.time()))

        async def scenario() -> None:
            one = loop.create_task(tick("one"), context=process_of("one"))
            other = loop.create_task(tick("other"), context=process_of("other"))
            await asyncio.sleep(2.5)
            loop.freeze("one")
            await asyncio.sleep(10)
            assert [at for name, at in seen if name == "one"] == [1.0, 2.0]
            assert len([at for name, at in seen if name == "other"]) == 12
            loop.thaw("one")
            await asyncio.sleep(1.5)
            one.cancel()
            other.cancel()

        loop.run_until_complete(scenario())
        # The alarm of the third second rings late, and the next counts from there.
        assert [at for name, at in seen if name == "one"] == [1.0, 2.0, 12.5, 13.5]


def test_what_a_frozen_process_waits_for_is_there_when_it_wakes() -> None:
    with SeededLoop(1) as loop:

        async def scenario() -> float:
            news: asyncio.Future[str] = loop.create_future()

            async def wait() -> float:
                assert await news == "hello"
                return loop.time()

            waiting = loop.create_task(wait(), context=process_of("one"))
            await asyncio.sleep(1)
            loop.freeze("one")
            news.set_result("hello")
            loop.call_later(5, loop.thaw, "one")
            return await waiting

        assert loop.run_until_complete(scenario()) == 6.0
