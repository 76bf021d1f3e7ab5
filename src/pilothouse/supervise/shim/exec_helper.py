"""The exec helper: runs one more program inside a container, and reports its exit code.

It is a child of the shim, minimal like it, and ends with the program that it runs. Standard streams are the
program's. Argument: the shim's pid; it ends with the shim. Descriptors: 3 to read the order from, 4 to answer
on, 5 the caller's control socket. The answer is empty once the program has been loaded, else a line with one
word and a message. The exit code (128 + n for signal n) is written to the control socket. When the other end
of that is closed or sends anything, or on SIGTERM, the program is killed.
"""

from __future__ import annotations

import _signal
import os
import select
import sys

from pilothouse.supervise.shim import kernel, process_setup
from pilothouse.supervise.shim.isolation import isolate_interpreter
from pilothouse.supervise.shim.launch_order import load_order
from pilothouse.supervise.shim.namespaces import enter_user_namespace, outer_user_namespace
from pilothouse.supervise.shim.start_errors import ProgramStartError
from pilothouse.supervise.shim.terminal import open_terminal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pilothouse.supervise.launch_spec import LaunchSpec

    class ExecOrder(LaunchSpec, frozen=True, kw_only=True):
        """The container's launch, with another program."""

        pid: int
        confined: bool


_MOUNTS = ("mnt", kernel.CLONE_NEWNS)
_NAMES = (
    ("uts", kernel.CLONE_NEWUTS),
    ("ipc", kernel.CLONE_NEWIPC),
    ("cgroup", kernel.CLONE_NEWCGROUP),
)
_PROCESSES = ("pid", kernel.CLONE_NEWPID)
_USER = ("user", kernel.CLONE_NEWUSER)
_ORDER, _ANSWER, _CONTROL = 3, 4, 5


def main() -> None:
    kernel.prctl(kernel.PR_SET_PDEATHSIG, _signal.SIGTERM)
    if os.getppid() != int(sys.argv[1]):
        os._exit(1)
    for descriptor in (_ORDER, _ANSWER, _CONTROL):
        os.set_inheritable(descriptor, False)
    with os.fdopen(_ORDER, "rb") as file:
        entry: ExecOrder = load_order(file.read())
    try:
        code = _run(entry, _ANSWER)
    except ProgramStartError as refusal:
        os.write(_ANSWER, f"{refusal.reason}\n{refusal.message}".encode(errors="replace"))
        code = 126
    except OSError as error:
        os.write(_ANSWER, f"StartFailed\ncan't start a program in the container: {error.strerror}".encode())
        code = 126
    try:
        os.write(_CONTROL, b"%d" % code)
    except OSError:  # The caller has gone.
        pass
    os._exit(0)


def _run(entry: ExecOrder, answer: int) -> int:
    process_setup.join(entry.cgroups)
    process_setup.set_oom_score(entry.oom_score_adj)
    if entry.confined:
        # The child enters the container's PID namespace before it execs, with our descriptors.
        kernel.prctl(kernel.PR_SET_DUMPABLE, 0)
    if not entry.tty:
        process_setup.give_stdio(entry.user, _first_id(entry.pid))
    namespaces = _Namespaces(entry.pid)
    namespaces.enter_first()
    _signal.pthread_sigmask(_signal.SIG_BLOCK, (_signal.SIGTERM,))
    pid = os.fork()
    if pid == 0:
        _child(entry, namespaces, answer)
    namespaces.close()
    _signal.signal(_signal.SIGTERM, lambda *_: os.kill(pid, _signal.SIGKILL))
    os.close(answer)
    for number in range(3):
        # Else the last byte of output would wait for us to end.
        os.close(number)
    for number in (_signal.SIGINT, _signal.SIGQUIT, _signal.SIGHUP):
        _signal.signal(number, _signal.SIG_IGN)
    _signal.pthread_sigmask(_signal.SIG_UNBLOCK, (_signal.SIGTERM,))
    _wait_or_kill(pid)
    status = os.waitpid(pid, 0)[1]
    return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def _wait_or_kill(pid: int) -> None:
    """Wait until the program has ended; kill it when the caller has gone."""
    pidfd = os.pidfd_open(pid)
    poller = select.poll()
    poller.register(pidfd, select.POLLIN)
    poller.register(_CONTROL, select.POLLIN)
    if all(descriptor != pidfd for descriptor, _ in poller.poll()):
        os.kill(pid, _signal.SIGKILL)
    os.close(pidfd)


class _Namespaces:
    """Those namespaces of a container's process that aren't ours already, opened.

    The caller holds the process, so that its pid is not reused meanwhile. A PID namespace begins with the
    next fork, so the helper enters that one; only its child enters the mount namespace. Root's namespaces
    need root's rights, so the child enters the user namespace last; without privileges the helper enters it
    first, since it gives rights over the others. There the container has one more below it, for its mounts
    (see `lock_mounts`), which the child enters.
    """

    def __init__(self, pid: int) -> None:
        self._privileged = os.geteuid() == 0
        self.mapped = False
        """Whether the user namespace maps one user."""
        self._open: dict[int, int] = {}
        self._outer = -1
        """The owner of the UTS and PID namespaces, if it is not that of the mounts."""
        try:
            for name, kind in (_MOUNTS, *_NAMES, _PROCESSES, _USER):
                if os.stat(f"/proc/{pid}/ns/{name}").st_ino != os.stat(f"/proc/self/ns/{name}").st_ino:
                    self._open[kind] = os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY | os.O_CLOEXEC)
            self._many = self._privileged and _knows_many(pid)
            if not self._privileged and kernel.CLONE_NEWUSER in self._open:
                self._outer = outer_user_namespace(self._open[kernel.CLONE_NEWUSER])
        except (FileNotFoundError, ProcessLookupError):
            raise ProgramStartError("NotRunning", "the container has ended") from None
        except OSError as error:
            raise _cant_enter(error) from None

    def enter_first(self) -> None:
        """Enter what the helper itself has to be in."""
        if self._outer >= 0:
            try:
                kernel.setns(self._outer, kernel.CLONE_NEWUSER)
            except OSError as error:
                raise _cant_enter(error) from None
        elif not self._privileged:
            self._enter(_USER)
        self._enter(_PROCESSES)

    def enter(self) -> None:
        """Enter all others. From here on we see the container's files."""
        isolate_interpreter()
        self._enter(*_NAMES, *((_MOUNTS, _USER) if self._privileged else (_USER, _MOUNTS)))

    def close(self) -> None:
        for descriptor in self._open.values():
            os.close(descriptor)
        self._open.clear()
        if self._outer >= 0:
            os.close(self._outer)

    def _enter(self, *kinds: tuple[str, int]) -> None:
        try:
            for _, kind in kinds:
                descriptor = self._open.pop(kind, None)
                if descriptor is None:
                    continue
                if kind == kernel.CLONE_NEWUSER and self._many:
                    enter_user_namespace(descriptor)
                else:
                    kernel.setns(descriptor, kind)
                    self.mapped = self.mapped or kind == kernel.CLONE_NEWUSER
                os.close(descriptor)
        except OSError as error:
            raise _cant_enter(error) from None


def _cant_enter(error: OSError) -> ProgramStartError:
    return ProgramStartError("EntryRefused", f"can't enter the container's namespaces: {error.strerror}")


def _first_id(pid: int) -> int:
    """The machine's id that a process knows as 0."""
    try:
        with open(f"/proc/{pid}/uid_map") as file:
            return int(file.readline().split()[1])
    except (FileNotFoundError, ProcessLookupError, IndexError):
        raise ProgramStartError("NotRunning", "the container has ended") from None


def _knows_many(pid: int) -> bool:
    """Whether a process is in a user namespace with more than one id."""
    with open(f"/proc/{pid}/uid_map") as file:
        return sum(int(line.split()[2]) for line in file) > 1


def _child(entry: ExecOrder, namespaces: _Namespaces, answer: int) -> None:
    """Does not return."""
    try:
        namespaces.enter()
        mapped = namespaces.mapped
        os.setsid()
        if entry.tty:
            open_terminal(0, None if mapped else entry.user)
        if entry.confined and not mapped:
            kernel.join_session_keyring()
        late, seccomp = entry.no_new_privileges, entry.seccomp
        process_setup.become_user(
            entry.user, entry.capabilities, mapped=mapped, seccomp=b"" if late else seccomp
        )
        process_setup.die_with_parent()
        process_setup.become(entry.argv, entry.env, entry.cwd, entry.umask, late, seccomp)
    except ProgramStartError as refusal:
        os.write(answer, f"{refusal.reason}\n{refusal.message}".encode(errors="replace"))
    except BaseException as error:  # noqa: BLE001 (the interpreter must not report it: see `isolation`)
        os.write(answer, f"StartFailed\n{type(error).__name__}: {error}".encode(errors="replace"))
    os._exit(126)
