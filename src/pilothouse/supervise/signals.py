"""Forwards signals to a child process, for a process that runs in its place, such as a pilot as PID 1.

    async with forwarding(lambda number: os.killpg(child, number)) as asked:
        await unless(child_ended, asked.wait())      # asked to stop: begin the stop, with its grace period
        ...
        asked.urgency                                # 1, and one more for every further TERM

The kernel drops signals to PID 1 without a handler, so each of these gets one. TERM and INT request a stop,
and the caller decides how the child is stopped. Another one raises the urgency, and never abandons a stop.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator, Callable

PASSED_ON = (signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGWINCH)
STOPPING = (signal.SIGTERM, signal.SIGINT)


class StopRequest:
    def __init__(self) -> None:
        self.urgency = 0
        self._again = asyncio.Event()

    def ask(self) -> None:
        self.urgency += 1
        self._again.set()

    async def wait(self, urgency: int = 1) -> None:
        """Wait until requested that many times."""
        while self.urgency < urgency:
            self._again.clear()
            await self._again.wait()


@contextlib.asynccontextmanager
async def forwarding(send: Callable[[int], None]) -> AsyncIterator[StopRequest]:
    """Handle signals within the context. One for a child that has ended is dropped."""
    loop = asyncio.get_running_loop()
    asked = StopRequest()

    def pass_on(number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            send(number)

    for number in PASSED_ON:
        loop.add_signal_handler(number, pass_on, number)
    for number in STOPPING:
        loop.add_signal_handler(number, asked.ask)
    try:
        yield asked
    finally:
        for number in (*PASSED_ON, *STOPPING):
            loop.remove_signal_handler(number)
