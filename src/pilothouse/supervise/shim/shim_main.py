"""The shim's main program: locks the directory, starts the program, monitors it, and writes its exit status.

It is a daemon that survives its parent. If the shim is killed, the kernel kills its program, and the next
`adopt` of the directory notices.

It answers on stdout, which it then closes: a line with its pid and its start in clock ticks, a line with one
word ("started", "taken", or the reason of a failure), and a message.
"""

from __future__ import annotations

import _signal
import errno
import fcntl
import os
import sys
import time

from pilothouse.supervise.shim import filesystem_view, kernel, process_setup
from pilothouse.supervise.shim.isolation import isolate_interpreter
from pilothouse.supervise.shim.launch_order import load_order
from pilothouse.supervise.shim.log_writer import LogFiles
from pilothouse.supervise.shim.namespaces import (
    enter_namespaces,
    enter_user_namespace,
    lock_mounts,
    make_user_namespace,
)
from pilothouse.supervise.shim.program_monitor import MonitoredProgram, follow, oom_kills
from pilothouse.supervise.shim.start_errors import ProgramStartError
from pilothouse.supervise.shim.terminal import open_terminal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pilothouse.supervise.launch_spec import FilesystemView, LaunchSpec

LOCK_SECONDS = 2.0
"""Checks whether the directory is locked hold the lock for an instant."""


def main() -> None:
    """Argument: the directory. Standard input: the launch, marshalled."""
    # Neither the program nor a helper may have the agent's keys.
    kernel.join_session_keyring()
    launch: LaunchSpec = load_order(_read_all(0))
    if launch.open_files:
        # For the shim too, and so for everything that is started here.
        process_setup.limit_open_files(launch.open_files)
    if os.fork():
        os._exit(0)
    stopping = (_signal.SIGTERM, _signal.SIGINT, _signal.SIGHUP, _signal.SIGQUIT)
    for number in (*stopping, _signal.SIGUSR1, _signal.SIGUSR2):
        # Only the program's end is the shim's end, or the exit record would be lost.
        _signal.signal(number, _signal.SIG_IGN)
    answer = fcntl.fcntl(1, fcntl.F_DUPFD_CLOEXEC, 10)
    nothing = os.open("/dev/null", os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    os.chdir(sys.argv[1])
    os.umask(0o077)
    pid, ticks = os.getpid(), _ticks(os.getpid())
    _say(answer, f"{pid} {ticks}\n")
    lock = os.open("lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    if not _locked(lock) or os.path.exists("state.json") or os.path.exists("exit.json"):
        _say(answer, "taken\n")
        os._exit(0)
    try:
        program = _start(launch, f'"shim_pid":{pid},"shim_ticks":{ticks}')
    except ProgramStartError as refusal:
        _say(answer, f"{refusal.reason}\n{refusal.message}")
        os._exit(1)
    except OSError as error:
        where = f"{sys.argv[1]}/{error.filename}: " if error.filename else ""
        _say(answer, f"MachineRefused\n{where}{error.strerror}")
        os._exit(1)
    _say(answer, "started\n")
    os.close(answer)
    follow(program, launch)
    os._exit(0)


def _start(launch: LaunchSpec, shim: str) -> MonitoredProgram:
    """Start the program; returns when it has been loaded. Raises ProgramStartError."""
    log = launch.log
    files = LogFiles(log.path, log.max_bytes, log.files)
    try:
        files.open()
        _reserve_exit()
    except OSError as error:
        why = f"can't write {error.filename or log.path}: {error.strerror}"
        raise ProgramStartError("LogRefused", why) from None
    # For orphans, and for the program itself, whose parent exits (see `namespaces`).
    kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)
    if launch.view is not None:
        _leave_abstract_sockets()
    program = MonitoredProgram(launch, files)
    users = make_user_namespace(launch.ids) if launch.ids is not None else -1
    answer, answering = os.pipe()
    going, go = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(answer)
        os.close(go)
        _child(launch, program, users, answering, going)
    if users >= 0:
        os.close(users)
    os.close(answering)
    os.close(going)
    try:
        if (word := _line(answer)).isdigit():
            os.waitpid(pid, 0)
            pid, word = int(word), _line(answer)
        if word == "ready":
            program.started = time.time()
            _write(
                "state.json",
                f'{{"boot":"{_boot()}","pid":{pid},"ticks":{_ticks(pid)},{shim},'
                f'"started":{program.started!r},"folder":"{_folder()}"}}',
            )
            os.write(go, b"+")
            word = _line(answer)
        elif not word:
            os.waitpid(pid, 0)
            raise ProgramStartError("StartFailed", _killed_early(launch, program))
        if word:
            os.waitpid(pid, 0)
            if os.path.exists("state.json"):
                os.unlink("state.json")
            raise ProgramStartError(word, _read_all(answer).decode(errors="replace"))
        program.follows(pid)
        return program
    finally:
        os.close(answer)
        os.close(go)


def _killed_early(launch: LaunchSpec, program: MonitoredProgram) -> str:
    """Why it ended before it was ready, without a message."""
    if oom_kills(launch.cgroups) > program.oom_before:
        return "it was killed while it was started, because memory ran out; give it more than a few MiB"
    return "it was killed while it was started"


def _child(launch: LaunchSpec, program: MonitoredProgram, users: int, answering: int, going: int) -> None:
    """Does not return. `users` is the program's user namespace, or -1."""
    seen, user = launch.view, launch.user
    try:
        process_setup.join(launch.cgroups)
        process_setup.set_oom_score(launch.oom_score_adj)
        mapped = False
        if seen is not None:
            mapped = enter_namespaces(user, report_pid=lambda pid: _say(answering, f"{pid}\n"))
        os.setsid()
        if not launch.tty:
            process_setup.take_stdio(*program.inner)
            if not mapped:
                process_setup.give_stdio(user, launch.ids.first if launch.ids is not None else 0)
        if mapped and users >= 0:
            why = "ids of its own: only root with all its capabilities can give them"
            raise ProgramStartError("ViewRefused", why)
        if seen is not None:
            isolate_interpreter()
            _build_view(launch, seen, users, mapped=mapped)
            if mapped:
                lock_mounts()
            # Before any process in the container can see us: our descriptors are not for them.
            kernel.prctl(kernel.PR_SET_DUMPABLE, 0)
        if users >= 0:
            enter_user_namespace(users)
        if launch.tty:
            open_terminal(program.inner[0], None if mapped else user)
        if seen is not None and not mapped:
            # Charged to the pod. Without privileges the shim's is shared: a user has some 200 keys.
            kernel.join_session_keyring()
        late = launch.no_new_privileges
        process_setup.become_user(
            user, launch.capabilities, mapped=mapped, seccomp=b"" if late else launch.seccomp
        )
        _say(answering, "ready\n")
        if os.read(going, 1) != b"+":
            os._exit(1)
        process_setup.die_with_parent()
        _end_if_alone(going)
        process_setup.become(launch.argv, launch.env, launch.cwd, launch.umask, late, launch.seccomp)
    except ProgramStartError as refusal:
        _say(answering, f"{refusal.reason}\n{refusal.message}")
    except BaseException as error:  # noqa: BLE001 (the interpreter must not report it: see `isolation`)
        _say(answering, f"StartFailed\n{type(error).__name__}: {error}")
    os._exit(1)


def _leave_abstract_sockets() -> None:
    """Restrict abstract sockets to this container, where the kernel can; all that we start inherits it."""
    if os.geteuid() != 0:
        # Required without privileges. In a view with one id nothing gives privileges anyway.
        kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
    kernel.scope_abstract_sockets()


def _build_view(launch: LaunchSpec, seen: FilesystemView, users: int, *, mapped: bool) -> None:
    folder = os.getcwd()
    os.makedirs("root", 0o700, exist_ok=True)
    os.makedirs("own", 0o700, exist_ok=True)
    os.umask(0o022)
    if launch.ids is not None:
        kernel.create_files_as(launch.ids.first, launch.ids.first)
    filesystem_view.build(seen, folder, launch.cgroups, users, _home(launch, mapped=mapped))


def _home(launch: LaunchSpec, *, mapped: bool) -> tuple[str, int, int] | None:
    """The directory of HOME and its owner on the machine; None if it need not be created."""
    path, user = os.path.normpath(launch.env.get("HOME", "")), launch.user
    if not path.startswith(("/home/", "/root/", "/var/", "/tmp/")):
        return None
    if user is None or mapped:
        return path, -1, -1
    first = launch.ids.first if launch.ids is not None else 0
    return path, first + user.uid, first + user.gid


def _end_if_alone(going: int) -> None:
    """Exit if the shim was killed just before we asked to die with it: then its pipe has ended."""
    os.set_blocking(going, False)
    try:
        os.read(going, 1)
    except BlockingIOError:
        return
    os._exit(1)


def _reserve_exit() -> None:
    """Reserve space for the exit record: it must be writable when the disk is full."""
    _write_file("exit.json.new", b" " * 512)


def _locked(lock: int) -> bool:
    deadline = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if os.path.exists("state.json") or time.monotonic() > deadline:
                return False
            time.sleep(0.01)


def _write(name: str, text: str) -> None:
    _write_file(name + ".new", text.encode())
    os.rename(name + ".new", name)


def _write_file(name: str, content: bytes) -> None:
    """Raises OSError with the file name, which a failing write would not have."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(name, flags, 0o600)
    try:
        if os.write(descriptor, content) < len(content):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), name)
    except OSError as error:
        raise OSError(error.errno, error.strerror, name) from None
    finally:
        os.close(descriptor)


def _folder() -> str:
    """Identifies this directory: a copy of it is another."""
    found = os.stat(".")
    return f"{found.st_dev}:{found.st_ino}"


def _boot() -> str:
    with open("/proc/sys/kernel/random/boot_id") as file:
        return file.read().strip()


def _ticks(pid: int) -> int:
    with open(f"/proc/{pid}/stat", "rb") as file:
        stat = file.read()
    return int(stat[stat.rindex(b")") + 2 :].split()[19])


def _say(descriptor: int, text: str) -> None:
    try:
        os.write(descriptor, text.encode(errors="replace"))
    except BrokenPipeError:  # The caller has died; the next one reads the directory.
        pass


def _line(descriptor: int) -> str:
    """One line, byte by byte, so that nothing of the next is read; empty at the end."""
    line = b""
    while (byte := os.read(descriptor, 1)) not in (b"", b"\n"):
        line += byte
    return line.decode(errors="replace")


def _read_all(descriptor: int) -> bytes:
    parts = []
    while part := os.read(descriptor, 65536):
        parts.append(part)
    return b"".join(parts)
