"""Monitors a program: forwards output and input, reaps orphans, and writes the exit status.

All in one loop over `poll`; only the log files are written by a thread (see `log_writer`).
"""

from __future__ import annotations

import _signal
import os
import select
import time

from pilothouse.supervise.shim import attach_clients as attached
from pilothouse.supervise.shim.attach_clients import PATIENCE, AttachClients, AttachInput
from pilothouse.supervise.shim.exec_requests import ExecRequests
from pilothouse.supervise.shim.log_writer import LineSplitter, LogFiles, LogRateLimit, LogWriter, Timestamps
from pilothouse.supervise.shim.process_tree import kill_below
from pilothouse.supervise.shim.terminal import receive_terminal, terminal_channel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pilothouse.supervise.launch_spec import LaunchSpec

DRAIN_SECONDS = 2.0
"""Seconds for output after all processes have ended: another process may hold a descriptor."""
FLUSH_SECONDS = 5.0
"""Seconds for which a stuck disk may delay the exit record."""
FAREWELL_SECONDS = 30.0
"""Seconds for attached clients to read the rest, if they read at all."""
SOCKETS = ("attach.sock", "enter.sock")
TICK_MS = 100
HELD_UP_MS = 5
"""Milliseconds between checks whether the log or clients have caught up, which no descriptor reports."""


class MonitoredProgram:
    """The ends of its standard streams, and its process once it runs."""

    def __init__(self, launch: LaunchSpec, files: LogFiles) -> None:
        self.files = files
        self.pid = 0
        self.pidfd = -1
        self.started = 0.0
        self.oom_before = oom_kills(launch.cgroups)
        self._open_streams(launch)
        for name in SOCKETS:
            if os.path.exists(name):  # Of a failed start.
                os.unlink(name)
        self.clients = AttachClients("attach.sock", self.input)
        self.entries = ExecRequests("enter.sock")

    def _open_streams(self, launch: LaunchSpec) -> None:
        self.outputs: dict[int, tuple[int, LineSplitter]]
        if launch.tty:
            self._terminal, inner = terminal_channel()
            self._typed = launch.stdin
            self.inner = (inner, inner, inner)
            self.outputs = {}
            self.input = AttachInput(-1, once=launch.stdin_once, terminal=True)
            return
        out, out_inner = os.pipe()
        err, err_inner = os.pipe()
        writer = -1
        if launch.stdin:
            reader, writer = os.pipe()
            os.set_blocking(writer, False)
        else:
            reader = os.open("/dev/null", os.O_RDONLY)
        self.inner = (reader, out_inner, err_inner)
        self.outputs = {
            out: (attached.STDOUT, LineSplitter("stdout")),
            err: (attached.STDERR, LineSplitter("stderr")),
        }
        for descriptor in self.outputs:
            os.set_blocking(descriptor, False)
        self.input = AttachInput(writer, once=launch.stdin_once, terminal=False)

    def follows(self, pid: int) -> None:
        """In the parent: the program runs; close its ends of the streams."""
        if self.input.terminal:
            master = receive_terminal(self._terminal)
            os.set_blocking(master, False)
            self.outputs[master] = (attached.STDOUT, LineSplitter("stdout"))
            if self._typed:
                self.input.descriptor = master
        self.pid = pid
        self.pidfd = os.pidfd_open(pid)
        for descriptor in set(self.inner):
            os.close(descriptor)


def follow(program: MonitoredProgram, launch: LaunchSpec) -> None:
    """Monitor it until it has ended and the exit record is on disk."""
    moments = Timestamps()
    log = LogWriter(program.files, moments)
    log.begin()
    clients = program.clients
    wake, waker = os.pipe()
    os.set_blocking(wake, False)
    os.set_blocking(waker, False)
    _signal.signal(_signal.SIGCHLD, lambda *_: None)
    _signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
    pump = _Pump(program, log, clients, moments)

    watched = (program.entries.listener.fileno(), program.pidfd, wake)
    status = None
    while status is None:
        for descriptor, events in pump.poll([(each, select.POLLIN) for each in watched], None):
            if descriptor == wake:
                _empty_pipe(wake)
                _reap_orphans(program.pid)
            elif descriptor == watched[0]:
                program.entries.accept()
            elif descriptor == program.pidfd:
                status = os.waitpid(program.pid, 0)[1]
            else:
                pump.happened(descriptor, events)
    finished = time.time()

    kill_descendants()
    until = time.monotonic() + DRAIN_SECONDS
    while program.outputs and time.monotonic() < until:
        for descriptor, events in pump.poll([], TICK_MS):
            pump.happened(descriptor, events)
    pump.end()
    log.finish()
    while not log.empty and log.stalled < FLUSH_SECONDS:
        time.sleep(0.001)

    oom = oom_kills(launch.cgroups) > program.oom_before
    record = _exit_record(status, oom, program.started, finished)
    for name in SOCKETS:
        try:
            # First: what has ended can't be attached to.
            os.unlink(name)
        except OSError as error:
            os.write(2, f"{name}: {error.strerror}\n".encode())
    _write_exit(record)
    clients.broadcast(attached.EXIT, record)
    clients.took = time.monotonic()
    until = clients.took + FAREWELL_SECONDS
    while not clients.all_sent and time.monotonic() < min(until, clients.took + PATIENCE):
        for descriptor, events in pump.poll([], TICK_MS):
            pump.happened(descriptor, events)


class _Pump:
    """Copies the program's output to the log and to attached clients."""

    def __init__(
        self, program: MonitoredProgram, log: LogWriter, clients: AttachClients, moments: Timestamps
    ) -> None:
        self._outputs = program.outputs
        self._log = log
        self._clients = clients
        self._moments = moments
        self._allowance = LogRateLimit(time.monotonic())

    def poll(self, others: list[tuple[int, int]], timeout: int | None) -> list[tuple[int, int]]:
        """Poll the program's output, the clients, and `others`, for at most `timeout` milliseconds."""
        wanted: dict[int, int] = dict(others)
        if self._log.full or self._clients.waited_for or self._allowance.is_spent(time.monotonic()):
            timeout = HELD_UP_MS
        else:
            for descriptor in self._outputs:
                wanted[descriptor] = select.POLLIN
        for descriptor, mask in self._clients.interests():
            wanted[descriptor] = wanted.get(descriptor, 0) | mask
        poller = select.poll()
        for descriptor, mask in wanted.items():
            poller.register(descriptor, mask)
        return poller.poll(timeout)

    def happened(self, descriptor: int, events: int) -> None:
        if descriptor in self._outputs and events & (select.POLLIN | select.POLLHUP | select.POLLERR):
            self._pass_on(descriptor)
        self._clients.happened(descriptor, events)

    def _pass_on(self, descriptor: int) -> None:
        channel, lines = self._outputs[descriptor]
        try:
            data = os.read(descriptor, 65536)
        except BlockingIOError:
            return
        except OSError:  # EIO of a terminal whose last user has closed it.
            data = b""
        if not data:
            del self._outputs[descriptor]
            self._log.accept(lines.end(self._moments.now()))
            return
        records = lines.feed(data, self._moments.now())
        self._allowance.spend(len(records))
        self._log.accept(records)
        self._clients.broadcast(channel, data)

    def end(self) -> None:
        for _, lines in self._outputs.values():
            self._log.accept(lines.end(self._moments.now()))


def oom_kills(cgroups: tuple[str, ...]) -> int:
    """The number of OOM kills in these cgroups: v2's file, else v1's."""
    total = 0
    for folder in cgroups:
        for name in ("memory.events", "memory.oom_control"):
            try:
                with open(f"{folder}/{name}") as file:
                    total += sum(int(line.split()[1]) for line in file if line.startswith("oom_kill "))
            except OSError:  # Another controller's, or the other version's.
                continue
    return total


def kill_descendants() -> None:
    """Kill all that is left of the program, until we have no children: orphans are reparented to us. A PID
    namespace's processes are gone already, with its first process."""
    while True:
        kill_below(os.getpid())
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(0.001)


def _reap_orphans(program: int) -> None:
    """Reap orphans. The program itself is left to its pidfd."""
    while True:
        try:
            seen = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return
        if seen is None or seen.si_pid == program:
            return
        os.waitpid(seen.si_pid, os.WNOHANG)


def _empty_pipe(descriptor: int) -> None:
    try:
        while os.read(descriptor, 4096):
            pass
    except BlockingIOError:
        pass


def _exit_record(status: int, oom: bool, started: float, finished: float) -> bytes:
    number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else None
    code = 128 + number if number is not None else os.WEXITSTATUS(status)
    return (
        f'{{"code":{code},"signal":{"null" if number is None else number},"oom":{"true" if oom else "false"},'
        f'"started":{started!r},"finished":{finished!r}}}'
    ).encode()


def _write_exit(record: bytes) -> None:
    """Overwrite the reserved file. A failing disk is retried: without this record nothing is known."""
    while True:
        try:
            descriptor = os.open("exit.json.new", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                os.pwrite(descriptor, record, 0)
                os.ftruncate(descriptor, len(record))
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            os.rename("exit.json.new", "exit.json")
        except FileNotFoundError:  # The directory was removed.
            return
        except OSError as error:
            os.write(2, f"exit.json: {error.strerror}\n".encode())
            time.sleep(1)
        else:
            return
