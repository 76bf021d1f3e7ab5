"""Runs another program inside a container, as `kubectl exec` and exec probes do.

    entered = await enter(folder, state, launch, ("pg_isready",), tty=False, stdin=False)
    print(await entered.stdout.read(), await entered.exited())

The program is in the container's namespaces and cgroups, runs as its user, and ends with the container, with
the caller, or when it is closed.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import marshal
import os
import signal
import socket
import struct
import termios
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from pilothouse.supervise import container_records
from pilothouse.supervise.attach import connect
from pilothouse.supervise.container_records import ContainerRecordState
from pilothouse.supervise.launch_spec import KILLED, LaunchError, LaunchSpec
from pilothouse.supervise.process_identity import ProcessGone, ProcessHandle
from pilothouse.supervise.shim.terminal import receive_terminal, terminal_channel
from pilothouse.supervise.shim_spawn import in_memory, lean_command, read_all

ENTER_SECONDS = 30.0


class ExecProcess:
    def __init__(
        self,
        control: socket.socket,
        stdin: asyncio.StreamWriter | None,
        stdout: asyncio.StreamReader,
        stderr: asyncio.StreamReader | None,
        terminal: int | None,
        transports: Sequence[asyncio.BaseTransport],
    ) -> None:
        self._control = control
        self._result: asyncio.Task[int] = asyncio.ensure_future(_result(control))
        self._terminal = terminal
        self._transports = transports
        self.stdin = stdin
        """None if not requested. Closing it ends the program's input; a terminal's ends by ^D."""
        self.stdout = stdout
        self.stderr = stderr
        """None with a terminal."""

    def resize(self, rows: int, columns: int) -> None:
        if self._terminal is not None:
            fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    async def exited(self) -> int:
        """Its exit code, 128 + n if signal n ended it. Output may still be unread."""
        return await asyncio.shield(self._result)

    def kill(self) -> None:
        """Kill it; processes that it daemonised stay in the container."""
        with contextlib.suppress(OSError):
            self._control.shutdown(socket.SHUT_WR)

    async def close(self) -> None:
        """Kill it if it still runs, and release everything."""
        self.kill()
        await self.exited()
        for transport in self._transports:
            transport.close()
        if self._terminal is not None:
            os.close(self._terminal)
            self._terminal = None
        self._control.close()


async def _result(control: socket.socket) -> int:
    """The helper's last message; without one it was killed, with the container."""
    loop = asyncio.get_running_loop()
    reply = b""
    with contextlib.suppress(ConnectionError):
        while data := await loop.sock_recv(control, 16):
            reply += data
    return int(reply) if reply.isdigit() else KILLED + signal.SIGKILL


async def enter(
    folder: Path,
    state: ContainerRecordState,
    launch: LaunchSpec,
    argv: Sequence[str],
    *,
    tty: bool = False,
    stdin: bool = False,
    env: Mapping[str, str] | None = None,
    cwd: str | None = None,
) -> ExecProcess:
    """Returns when it has been loaded. Defaults are the container's own. Raises LaunchError."""
    try:
        held = ProcessHandle.open(state.program)
    except ProcessGone:
        raise LaunchError("NotRunning", "the container has ended") from None
    order: dict[str, Any] = {
        **msgspec.to_builtins(launch, builtin_types=(bytes,)),
        "pid": state.pid,
        "confined": launch.view is not None,
        "argv": list(argv),
        "env": dict(launch.env if env is None else env),
        "cwd": launch.cwd if cwd is None else cwd,
        "tty": tty,
    }
    with contextlib.closing(held):
        ends = _Ends(tty=tty, stdin=stdin)
        try:
            control, answer = _ask(folder, state, order, ends)
        except BaseException:
            ends.close_outer()
            raise
        finally:
            ends.close_inner()
        reply = bytearray()
        try:
            async with asyncio.timeout(ENTER_SECONDS):
                await read_all(answer, reply)
            if reply:
                reason, _, message = reply.decode(errors="replace").partition("\n")
                raise LaunchError(reason, message)
            return await ends.opened(control)
        except BaseException as error:
            control.close()
            ends.close_outer()
            if isinstance(error, TimeoutError):
                raise LaunchError("TookTooLong", f"{argv[0]} was not loaded in {ENTER_SECONDS:g} s") from None
            raise


class _Ends:
    """The standard streams: the program's ends (`inner`) and ours."""

    def __init__(self, *, tty: bool, stdin: bool) -> None:
        self.tty = tty
        self._typed = stdin
        self._stdin = -1
        if tty:
            self._stdout, inner = terminal_channel()
            self._stderr = -1
            self.inner = (inner, inner, inner)
            return
        self._stdout, out = os.pipe()
        self._stderr, err = os.pipe()
        if stdin:
            reading, self._stdin = os.pipe()
        else:
            reading = os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)
        self.inner = (reading, out, err)

    def close_inner(self) -> None:
        for descriptor in set(self.inner):
            os.close(descriptor)

    def close_outer(self) -> None:
        for name in ("_stdin", "_stdout", "_stderr"):
            if (descriptor := getattr(self, name)) >= 0:
                os.close(descriptor)
                setattr(self, name, -1)

    async def opened(self, control: socket.socket) -> ExecProcess:
        """As asyncio's streams, which own them from here on."""
        terminal = None
        if self.tty:
            channel, self._stdout = self._stdout, -1
            try:
                self._stdout = receive_terminal(channel)
            except OSError as error:
                raise LaunchError("StartFailed", f"its terminal was not passed on: {error}") from None
            terminal = os.dup(self._stdout)
            if self._typed:
                self._stdin = os.dup(self._stdout)
        transports: list[asyncio.BaseTransport] = []
        stdin = await self._writer("_stdin", transports)
        stdout = await self._reader("_stdout", transports)
        stderr = await self._reader("_stderr", transports) if self._stderr >= 0 else None
        return ExecProcess(control, stdin, stdout, stderr, terminal, transports)

    def _taken(self, name: str, mode: str) -> object:
        descriptor = getattr(self, name)
        setattr(self, name, -1)
        return os.fdopen(descriptor, mode, buffering=0)

    async def _reader(self, name: str, transports: list[asyncio.BaseTransport]) -> asyncio.StreamReader:
        reader = asyncio.StreamReader()
        loop = asyncio.get_running_loop()
        transport, _ = await loop.connect_read_pipe(lambda: _Reading(reader), self._taken(name, "rb"))
        transports.append(transport)
        return reader

    async def _writer(
        self, name: str, transports: list[asyncio.BaseTransport]
    ) -> asyncio.StreamWriter | None:
        if getattr(self, name) < 0:
            return None
        loop = asyncio.get_running_loop()
        protocol = asyncio.StreamReaderProtocol(asyncio.StreamReader())
        transport, _ = await loop.connect_write_pipe(lambda: protocol, self._taken(name, "wb"))
        transports.append(transport)
        return asyncio.StreamWriter(transport, protocol, None, loop)


class _Reading(asyncio.StreamReaderProtocol):
    """A terminal whose last user has closed it raises EIO, which is its end, not an error."""

    def connection_lost(self, exc: Exception | None) -> None:
        over = isinstance(exc, OSError) and exc.errno == errno.EIO
        super().connection_lost(None if over else exc)


def _ask(
    folder: Path, state: ContainerRecordState, order: dict[str, Any], ends: _Ends
) -> tuple[socket.socket, int]:
    """Request the helper from the shim; returns its control socket and answer pipe. Raises LaunchError."""
    control, theirs = socket.socketpair()
    reading = in_memory(order)
    answer, answering = os.pipe()
    try:
        with connect(folder, container_records.ENTER) as connection:
            command = marshal.dumps(lean_command("exec_helper", str(state.shim_pid)))
            socket.send_fds(connection, [command], [*ends.inner, reading, answering, theirs.fileno()])
        control.setblocking(False)
        return control, answer
    except BaseException as error:
        os.close(answer)
        control.close()
        if isinstance(error, OSError):
            why = f"the container's shim can't be asked: {error.strerror}"
            raise LaunchError("NotRunning", why) from None
        raise
    finally:
        os.close(reading)
        os.close(answering)
        theirs.close()
