"""The shim's main program: locks the directory, starts the program, monitors it, and writes its exit status.

It is a daemon from the moment it is spawned, so the death of its parent makes no difference. If the shim is killed, the kernel kills its
program, and the next `adopt` of the directory notices.

It answers on its standard output, which it then closes: a line with its pid and its start in clock ticks, a line with one word
("started", "taken", or the reason of a failure), and a message for people.
"""

from __future__ import annotations

import _signal
import errno
import fcntl
import marshal
import os
import sys
import time

from pilothouse.supervise.shim import filesystem_view, kernel, process_setup
from pilothouse.supervise.shim.isolation import isolate_interpreter
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
    from pilothouse.supervise.shim.launch_types import HomeShape, LaunchShape, ViewShape

LOCK_SECONDS = 2.0
"""Those who only look whether the folder is locked hold the lock for an instant."""


def main() -> None:
    """Arguments: the folder. Standard input: the launch, marshalled."""
    # The agent's keys are for nobody who is started from here: neither the program nor a helper that enters the container.
    kernel.join_session_keyring()
    launch: LaunchShape = marshal.loads(_read_all(0))
    if launch["open_files"]:
        # Ours too, and so that of everything that is started here.
        process_setup.limit_open_files(launch["open_files"])
    if os.fork():
        os._exit(0)
    for number in (
        _signal.SIGTERM,
        _signal.SIGINT,
        _signal.SIGHUP,
        _signal.SIGQUIT,
        _signal.SIGUSR1,
        _signal.SIGUSR2,
    ):
        # The program's end is the shim's end; nothing else is, or the exit record would be lost.
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


def _start(launch: LaunchShape, shim: str) -> MonitoredProgram:
    """Until the program has been loaded. Raises ProgramStartError, and leaves nothing then."""
    log = launch["log"]
    files = LogFiles(log["path"], log["max_bytes"], log["files"])
    try:
        files.open()
        _reserve_exit()
    except OSError as error:
        raise ProgramStartError(
            "LogRefused", f"can't write {error.filename or log['path']}: {error.strerror}"
        ) from None
    # Orphans of the program come to us, and so does the program itself from the process between us (see `namespaces`).
    kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)
    if launch["view"] is not None:
        _leave_abstract_sockets()
    program = MonitoredProgram(launch, files)
    users = make_user_namespace(launch["ids"]) if launch["ids"] is not None else -1
    told, telling = os.pipe()
    going, go = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(told)
        os.close(go)
        _child(launch, program, users, telling, going)
    if users >= 0:
        os.close(users)
    os.close(telling)
    os.close(going)
    try:
        if (word := _line(told)).isdigit():
            os.waitpid(pid, 0)
            pid, word = int(word), _line(told)
        if word == "ready":
            program.started = time.time()
            _write(
                "state.json",
                f'{{"boot":"{_boot()}","pid":{pid},"ticks":{_ticks(pid)},{shim},"started":{program.started!r},'
                f'"folder":"{_folder()}"}}',
            )
            os.write(go, b"+")
            word = _line(told)
        elif not word:
            os.waitpid(pid, 0)
            raise ProgramStartError("StartFailed", _killed_early(launch, program))
        if word:
            os.waitpid(pid, 0)
            if os.path.exists("state.json"):
                os.unlink("state.json")
            raise ProgramStartError(word, _read_all(told).decode(errors="replace"))
        program.follows(pid)
        return program
    finally:
        os.close(told)
        os.close(go)


def _killed_early(launch: LaunchShape, program: MonitoredProgram) -> str:
    """Why it ended before it was ready, which it would have said if it could."""
    if oom_kills(launch["cgroups"]) > program.oom_before:
        return "it was killed while it was started, because memory ran out; give it more than a few MiB"
    return "it was killed while it was started"


def _child(launch: LaunchShape, program: MonitoredProgram, users: int, telling: int, going: int) -> None:
    """Does not return. `users` is the user namespace that the program is to be in, or -1."""
    seen, user = launch["view"], launch["user"]
    try:
        process_setup.join(launch["cgroups"])
        process_setup.set_oom_score(launch["oom_score_adj"])
        mapped = (
            enter_namespaces(user, told_by=lambda pid: _say(telling, f"{pid}\n"))
            if seen is not None
            else False
        )
        os.setsid()
        if not launch["tty"]:
            process_setup.take_stdio(*program.inner)
            if not mapped:
                process_setup.give_stdio(user, launch["ids"]["first"] if launch["ids"] is not None else 0)
        if mapped and users >= 0:
            raise ProgramStartError(
                "ViewRefused", "ids of its own: only root with all its capabilities can give them"
            )
        if seen is not None:
            isolate_interpreter()
            _build_view(launch, seen, users, mapped=mapped)
            if mapped:
                lock_mounts()
            # Before anyone in the container can see us: what we have open is not for them.
            kernel.prctl(kernel.PR_SET_DUMPABLE, 0)
        if users >= 0:
            enter_user_namespace(users)
        if launch["tty"]:
            open_terminal(program.inner[0], None if mapped else user)
        if seen is not None and not mapped:
            # One that is charged to the pod. Without privileges the shim's is the container's: a user may have some 200 keys.
            kernel.join_session_keyring()
        late = launch["no_new_privileges"]
        process_setup.become_user(
            user, launch["capabilities"], mapped=mapped, seccomp=b"" if late else launch["seccomp"]
        )
        _say(telling, "ready\n")
        if os.read(going, 1) != b"+":
            os._exit(1)
        process_setup.die_with_parent()
        _end_if_alone(going)
        process_setup.become(
            launch["argv"],
            launch["env"],
            launch["cwd"],
            launch["umask"],
            launch["no_new_privileges"],
            launch["seccomp"],
        )
    except ProgramStartError as refusal:
        _say(telling, f"{refusal.reason}\n{refusal.message}")
    except BaseException as error:  # noqa: BLE001 (whatever it is, the interpreter must not report it itself: see `isolation`)
        _say(telling, f"StartFailed\n{type(error).__name__}: {error}")
    os._exit(1)


def _leave_abstract_sockets() -> None:
    """Of the machine and of other containers, where the kernel can tell them apart; all that we start is bound by it as we are."""
    if os.geteuid() != 0:
        # Or an ordinary user may not ask for it. Nothing in a view gives privileges to one whose namespace knows one id.
        kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
    kernel.scope_abstract_sockets()


def _build_view(launch: LaunchShape, seen: ViewShape, users: int, *, mapped: bool) -> None:
    folder = os.getcwd()
    os.makedirs("root", 0o700, exist_ok=True)
    os.makedirs("own", 0o700, exist_ok=True)
    os.umask(0o022)
    if launch["ids"] is not None:
        kernel.create_files_as(launch["ids"]["first"], launch["ids"]["first"])
    filesystem_view.build(seen, folder, launch["cgroups"], users, _home(launch, mapped=mapped))


def _home(launch: LaunchShape, *, mapped: bool) -> HomeShape | None:
    """The folder that HOME names, and whose it is on the machine; None if there is no need to make one."""
    path, user = os.path.normpath(launch["env"].get("HOME", "")), launch["user"]
    if not path.startswith(("/home/", "/root/", "/var/", "/tmp/")):
        return None
    if user is None or mapped:
        return {"path": path, "uid": -1, "gid": -1}
    first = launch["ids"]["first"] if launch["ids"] is not None else 0
    return {"path": path, "uid": first + user["uid"], "gid": first + user["gid"]}


def _end_if_alone(going: int) -> None:
    """The shim may have been killed just before we asked to die with it: then the pipe from it has ended."""
    os.set_blocking(going, False)
    try:
        os.read(going, 1)
    except BlockingIOError:
        return
    os._exit(1)


def _reserve_exit() -> None:
    """Space for the exit record, taken while there is some: it must be writable when the disk is full."""
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
    """Raises OSError with its name, which a failing write would not have."""
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
    """Which folder this is: a copy of it is another."""
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
    except BrokenPipeError:  # Who asked has died; who comes next reads the folder.
        pass


def _line(descriptor: int) -> str:
    """One line, byte by byte, so that nothing of the next is taken; empty at the end."""
    line = b""
    while (byte := os.read(descriptor, 1)) not in (b"", b"\n"):
        line += byte
    return line.decode(errors="replace")


def _read_all(descriptor: int) -> bytes:
    parts = []
    while part := os.read(descriptor, 65536):
        parts.append(part)
    return b"".join(parts)
