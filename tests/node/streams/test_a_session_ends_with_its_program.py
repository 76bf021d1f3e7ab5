"""Which side has ended a talk: the client, the program, or neither, when something broke in between."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from pilothouse.api.kubernetes.pods.stream_options import StreamOptions
from pilothouse.node.server.container_programs import OutputQueue
from pilothouse.node.server.stream_channels import ERROR, RESIZE, STDIN, STDOUT
from pilothouse.node.server.stream_session import run_session

TYPED = bytes([STDIN]) + b"hello"
RESIZED = bytes([RESIZE]) + b'{"Width": 80, "Height": 24}'


class Client:
    """Says these messages and then keeps the line; after ``leaves`` messages it is gone."""

    def __init__(self, *says: bytes, leaves: int | None = None) -> None:
        self._says = list(says)
        self._leaves = leaves
        self.heard: list[bytes] = []

    async def receive(self) -> bytes | None:
        if self._says:
            return self._says.pop(0)
        await asyncio.Event().wait()
        return None

    async def send(self, message: bytes) -> None:
        if len(self.heard) == self._leaves:
            raise ConnectionResetError("Cannot write to closing transport")
        self.heard.append(message)

    @property
    def printed(self) -> bytes:
        return b"".join(each[1:] for each in self.heard if each[0] == STDOUT)

    @property
    def told(self) -> list[dict[str, Any]]:
        return [msgspec.json.decode(each[1:]) for each in self.heard if each[0] == ERROR]


class Deaf:
    """A program that fails at any input, and then goes on to its end."""

    stderr = None

    def __init__(self, problem: Exception) -> None:
        self._problem = problem
        self._asked = asyncio.Event()
        self.stdout = OutputQueue()

    async def type(self, data: bytes) -> None:
        self._fail()

    async def end_input(self) -> None:
        self._fail()

    def resize(self, rows: int, columns: int) -> None:
        self._fail()

    async def exited(self) -> int:
        await self._asked.wait()
        await self.stdout.put(b"last words")
        self.stdout.end()
        return 7

    def _fail(self) -> None:
        self._asked.set()
        raise self._problem


OPTIONS = StreamOptions.parse("command=cat&stdin=1&stdout=1&tty=1", runs=True)


@pytest.mark.parametrize("says", [TYPED, RESIZED], ids=["typed", "resized"])
@pytest.mark.parametrize("problem", [BrokenPipeError("gone"), OSError(5, "Input/output error")])
async def test_a_program_that_takes_no_input_still_tells_its_end(says: bytes, problem: OSError) -> None:
    client = Client(says)
    assert await run_session(client, Deaf(problem), OPTIONS)
    assert client.printed == b"last words"
    assert [each["reason"] for each in client.told] == ["NonZeroExitCode"]


async def test_what_breaks_here_is_told_and_raised() -> None:
    client = Client(TYPED)
    with pytest.raises(ZeroDivisionError):
        await run_session(client, Deaf(ZeroDivisionError("a bug")), OPTIONS)
    assert [each["reason"] for each in client.told] == ["InternalError"]
    assert "a bug" in client.told[0]["message"]


async def test_a_client_that_goes_amid_the_output_is_just_gone() -> None:
    program = Deaf(BrokenPipeError("gone"))
    with pytest.raises(BrokenPipeError):
        await program.type(b"so that it ends")
    assert not await run_session(Client(leaves=1), program, OPTIONS)
