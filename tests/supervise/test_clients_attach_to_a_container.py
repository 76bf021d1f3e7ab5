"""Output as it comes, input as it is typed, through the socket in a container's folder."""

from __future__ import annotations

import asyncio
import os
import socket
import struct
import tempfile
from pathlib import Path

import msgspec
import pytest
from tests.kit.containers import Box

from pilothouse.supervise.attach import EXIT, STDERR, STDOUT, Attached, attach
from pilothouse.supervise.container_records import ATTACH
from pilothouse.supervise.launch_spec import ContainerExit, LaunchError

ECHO = "while read line; do echo got $line; done; echo end of input; exit 4"


async def rest(attached: Attached) -> dict[int, bytes]:
    """All that still comes, by channel."""
    found: dict[int, list[bytes]] = {}
    async with asyncio.timeout(60):
        async for channel, data in attached:
            found.setdefault(channel, []).append(data)
    await attached.aclose()
    return {channel: b"".join(parts) for channel, parts in found.items()}


async def test_input_goes_in_and_output_comes_out(box: Box) -> None:
    container = await box.shell(ECHO, stdin=True, stdin_once=True)
    attached = await container.attach()
    await attached.send(b"one\ntwo\n")
    attached.end_input()
    heard = await rest(attached)
    assert heard[STDOUT] == b"got one\ngot two\nend of input\n"
    assert attached.exit == await container.exited()
    assert attached.exit.code == 4
    assert box.output(container) == heard[STDOUT].decode().splitlines()


async def test_streams_are_kept_apart(box: Box) -> None:
    container = await box.shell("read x; echo out; echo err >&2", stdin=True)
    attached = await container.attach()
    await attached.send(b"go\n")
    heard = await rest(attached)
    assert (heard[STDOUT], heard[STDERR]) == (b"out\n", b"err\n")
    assert EXIT in heard


async def test_several_are_told_the_same(box: Box) -> None:
    container = await box.shell("read x; seq 1 5000", stdin=True)
    first, second, third = [await container.attach() for _ in range(3)]
    await second.send(b"go\n")
    heard = await asyncio.gather(rest(first), rest(second), rest(third))
    assert {each[STDOUT] for each in heard} == {b"".join(b"%d\n" % number for number in range(1, 5001))}


async def test_input_stays_open_for_the_next_one(box: Box) -> None:
    container = await box.shell(ECHO, stdin=True)
    for word in (b"first", b"second"):
        attached = await container.attach()
        await attached.send(word + b"\n")
        async with asyncio.timeout(60):
            assert await anext(aiter(attached)) == (STDOUT, b"got " + word + b"\n")
        attached.end_input()
        await attached.aclose()
    await box.says(container, "got second")
    assert box.output(container) == ["got first", "got second"]


async def test_input_to_be_read_once_ends_with_its_client(box: Box) -> None:
    container = await box.shell(ECHO, stdin=True, stdin_once=True)
    attached = await container.attach()
    await attached.send(b"one\n")
    await attached.aclose()
    async with asyncio.timeout(60):
        assert (await container.exited()).code == 4
    assert box.output(container) == ["got one", "end of input"]


async def test_who_only_looks_does_not_end_the_input(box: Box) -> None:
    container = await box.shell(ECHO, stdin=True, stdin_once=True)
    await (await container.attach()).aclose()
    attached = await container.attach()
    await attached.send(b"still\n")
    attached.end_input()
    assert (await rest(attached))[STDOUT] == b"got still\nend of input\n"


async def test_much_input_waits_for_a_slow_reader(box: Box) -> None:
    container = await box.shell("sleep 0.3; wc -c", stdin=True, stdin_once=True)
    attached = await container.attach()
    await attached.send(b"x" * 2_000_000)
    attached.end_input()
    assert (await rest(attached))[STDOUT].strip() == b"2000000"


async def test_input_for_a_program_that_has_closed_its_end_is_let_go(box: Box) -> None:
    container = await box.shell("exec 0<&-; echo closed; sleep 0.3; exit 3", stdin=True)
    attached = await container.attach()
    await attached.send(b"x" * 500_000)
    await rest(attached)
    assert (await container.exited()).code == 3


async def test_a_program_that_ends_while_it_is_written_to_is_heard_to_its_last_word() -> None:
    ended = ContainerExit(code=1, signal=None, oom=False, started=1.0, finished=2.0)
    # The name of a socket has little room, and a test's own folder may have a long one.
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as shim:
        shim.bind(str(Path(folder) / ATTACH))
        shim.listen()
        attached = await attach(Path(folder))
        connection, _ = shim.accept()
    with connection:
        for channel, data in ((STDERR, b"last words\n"), (EXIT, msgspec.json.encode(ended))):
            connection.sendall(struct.pack(">BI", channel, len(data)) + data)
    # Nothing of this has been read when the first writing fails.
    await attached.send(b"more\n")
    attached.resize(24, 80)
    assert (await rest(attached))[STDERR] == b"last words\n"
    assert attached.exit == ended


async def test_a_terminal_echoes_and_has_a_size(box: Box) -> None:
    container = await box.shell("read word; stty size; echo $word", stdin=True, tty=True)
    attached = await container.attach()
    attached.resize(24, 81)
    await attached.send(b"hello\n")
    heard = await rest(attached)
    assert heard[STDOUT] == b"hello\r\n24 81\r\nhello\r\n"
    assert STDERR not in heard


async def test_control_c_on_its_terminal_interrupts_it(box: Box) -> None:
    container = await box.shell(
        "trap 'exit 9' INT; echo up; while :; do sleep 0.05; done", stdin=True, tty=True
    )
    attached = await container.attach()
    await box.says(container, "up\r")
    await attached.send(b"\x03")
    async with asyncio.timeout(60):
        assert (await container.exited()).code == 9
    await attached.aclose()


async def test_without_input_typing_is_for_nothing(box: Box) -> None:
    container = await box.shell("cat; echo done; sleep 1000")
    await box.says(container, "done")
    attached = await container.attach()
    await attached.send(b"hello?\n")
    await container.stop(9, 0)
    assert attached.exit is None
    assert EXIT in await rest(attached)


async def test_a_client_that_does_not_read_is_cut_off_and_delays_nobody(box: Box) -> None:
    container = await box.shell("read x; head -c 20000000 /dev/zero | tr '\\0' 'x\\n'; exit 3", stdin=True)
    lazy = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    held = os.open(container.folder, os.O_PATH)
    lazy.connect(f"/proc/self/fd/{held}/attach.sock")
    os.close(held)
    attached = await container.attach()
    await attached.send(b"go\n")
    heard = await rest(attached)
    assert len(heard[STDOUT]) == 20_000_000
    async with asyncio.timeout(30):
        assert (await container.exited()).code == 3
    lazy.close()


async def test_its_end_is_told_before_those_attached_have_read_all(box: Box) -> None:
    container = await box.shell("read x; head -c 300000 /dev/zero; exit 3", stdin=True)
    attached = await container.attach()
    await attached.send(b"go\n")
    assert (await container.exited()).code == 3
    assert len((await rest(attached))[STDOUT]) == 300_000


@pytest.mark.parametrize(
    "noise",
    [b"\xff" * 100, struct.pack(">BI", 0, 0xFFFFFFFF) + b"x", struct.pack(">BI", 4, 5) + b"a b c", b"\0"],
    ids=["noise", "a frame of 4 GiB", "a size that is none", "half a header"],
)
async def test_nonsense_harms_nobody(box: Box, noise: bytes) -> None:
    container = await box.shell(ECHO, stdin=True, tty=True)
    held = os.open(container.folder, os.O_PATH)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as rude:
        rude.connect(f"/proc/self/fd/{held}/attach.sock")
        rude.sendall(noise)
    os.close(held)
    attached = await container.attach()
    await attached.send(b"hello\n")
    await box.says(container, "got hello\r")
    await attached.aclose()


async def test_nobody_attaches_to_what_has_ended(box: Box, tmp_path: Path) -> None:
    container = await box.shell("exit 0")
    await container.exited()
    with pytest.raises(LaunchError) as failed:
        await container.attach()
    assert failed.value.reason == "NotRunning"
