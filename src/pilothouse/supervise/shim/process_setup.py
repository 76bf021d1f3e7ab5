"""The last steps before exec: cgroups, user, capabilities, seccomp filter, signals.

Runs in the child, between fork and exec, and in processes that enter a container. Every failure is a
ProgramStartError.
"""

from __future__ import annotations

import _signal
import errno
import os
import resource
import stat

from pilothouse.supervise.shim import kernel
from pilothouse.supervise.shim.start_errors import ProgramStartError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pilothouse.supervise.launch_spec import ProcessUser

# fmt: off
CAPABILITIES = (
    "CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID", "SETPCAP",
    "LINUX_IMMUTABLE", "NET_BIND_SERVICE", "NET_BROADCAST", "NET_ADMIN", "NET_RAW", "IPC_LOCK",
    "IPC_OWNER", "SYS_MODULE", "SYS_RAWIO", "SYS_CHROOT", "SYS_PTRACE", "SYS_PACCT", "SYS_ADMIN",
    "SYS_BOOT", "SYS_NICE", "SYS_RESOURCE", "SYS_TIME", "SYS_TTY_CONFIG", "MKNOD", "LEASE", "AUDIT_WRITE",
    "AUDIT_CONTROL", "SETFCAP", "MAC_OVERRIDE", "MAC_ADMIN", "SYSLOG", "WAKE_ALARM", "BLOCK_SUSPEND",
    "AUDIT_READ", "PERFMON", "BPF", "CHECKPOINT_RESTORE",
)
# fmt: on
"""Each at its number."""

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def die_with_parent() -> None:
    """Must be repeated after a change of user, which resets it."""
    kernel.prctl(kernel.PR_SET_PDEATHSIG, _signal.SIGKILL)


def join(cgroups: tuple[str, ...]) -> None:
    """Join these cgroups, so that everything is counted and limited from the first instruction."""
    for folder in cgroups:
        try:
            with open(f"{folder}/cgroup.procs", "w") as file:
                file.write("0")
        except OSError as error:
            why = f"can't enter the cgroup {folder}: {error.strerror}"
            raise ProgramStartError("CgroupRefused", why) from None


def set_oom_score(value: int | None) -> None:
    """Set the OOM score. Without privileges it can't be below our own, and then stays."""
    if value is not None:
        try:
            with open("/proc/self/oom_score_adj", "w") as file:
                file.write(f"{value}")
        except PermissionError as error:
            os.write(2, f"oom_score_adj {value}: {error.strerror}\n".encode())


def take_stdio(stdin: int, stdout: int, stderr: int) -> None:
    """None of them may be 0, 1 or 2 already."""
    for number, descriptor in enumerate((stdin, stdout, stderr)):
        os.dup2(descriptor, number)


def give_stdio(user: ProcessUser | None, first: int) -> None:
    """Make the pipes `user`'s, for `/dev/stdout`. `first`: the machine's id of its 0. Needs root."""
    if user is None or os.geteuid() != 0:
        return
    for number in range(3):
        if stat.S_ISFIFO(os.fstat(number).st_mode):
            os.fchown(number, first + user.uid, first + user.gid)


def become_user(
    user: ProcessUser | None, capabilities: tuple[str, ...] | None, *, mapped: bool, seccomp: bytes = b""
) -> None:
    """`mapped`: we are in a user namespace that maps one user, and are that one already. `seccomp`: a filter
    that must be set while we have capabilities, for a program that may gain privileges."""
    kept = _mask(capabilities)
    if kept is not None:
        kernel.prctl(kernel.PR_CAP_AMBIENT, kernel.PR_CAP_AMBIENT_CLEAR_ALL)
        for number in range(len(CAPABILITIES)):
            if not kept >> number & 1:
                _drop(number)
    if seccomp:
        kernel.filter_system_calls(seccomp)
    if user is not None and not mapped:
        uid, gid, groups = user.uid, user.gid, user.groups
        if (uid, gid) != (os.getuid(), os.getgid()) or set(groups) - set(os.getgroups()) or os.getuid() == 0:
            try:
                os.setgroups(list(groups))
                os.setresgid(gid, gid, gid)
                os.setresuid(uid, uid, uid)
            except OSError as error:
                why = f"can't run as user {uid}, group {gid}: {error.strerror}; {_user_help(error)}"
                raise ProgramStartError("UserRefused", why) from None
    if kept is not None and os.getuid() == 0:
        _limit(kept)


def _user_help(error: OSError) -> str:
    if error.errno == errno.EINVAL:
        return "a container with ids of its own has those from 0 to 65535"
    return "only root may choose another user"


def limit_open_files(count: int) -> None:
    """Set the soft limit of open files, at most to the hard limit."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    soft = count if hard == resource.RLIM_INFINITY else min(count, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def become(
    argv: tuple[str, ...],
    env: dict[str, str],
    cwd: str,
    umask: int,
    no_new_privileges: bool,
    seccomp: bytes = b"",
) -> None:
    """Does not return. `seccomp` goes with `no_new_privileges`, and filters our own calls too."""
    if not argv:
        raise ProgramStartError("ProgramNotFound", "no program is named")
    try:
        os.chdir(cwd)
    except OSError as error:
        why = f"working directory {cwd}: {error.strerror}"
        raise ProgramStartError("WorkingDirectoryRefused", why) from None
    os.umask(umask)
    for number in range(1, _signal.NSIG):
        if number not in (_signal.SIGKILL, _signal.SIGSTOP) and _signal.getsignal(number) is not None:
            _signal.signal(number, _signal.SIG_DFL)
    _signal.pthread_sigmask(_signal.SIG_SETMASK, ())
    if no_new_privileges:
        kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
        if seccomp:
            kernel.filter_system_calls(seccomp)
    failed: OSError | None = None
    for path in _candidates(argv[0], env.get("PATH", _PATH)):
        try:
            os.execve(path, argv, env)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            # As in a shell: a file that can't be run does not hide one further along the path.
            failed = error
    raise _exec_error(failed, argv[0], env.get("PATH", _PATH))


def _candidates(program: str, path: str) -> list[str]:
    return [program] if "/" in program else [f"{folder or '.'}/{program}" for folder in path.split(":")]


def _exec_error(failed: OSError | None, program: str, path: str) -> ProgramStartError:
    if failed is None:
        where = "" if "/" in program else f" in {path}"
        return ProgramStartError("ProgramNotFound", f"{program}: there is no such program{where}")
    if failed.errno == errno.E2BIG:
        why = f"{program}: arguments and environment are larger than the kernel takes"
        return ProgramStartError("TooBig", why)
    if failed.errno in (errno.EACCES, errno.ENOEXEC, errno.EPERM):
        return ProgramStartError("NotExecutable", f"{program} can't be executed: {failed.strerror}")
    return ProgramStartError("StartFailed", f"{program}: {failed.strerror}")


def _mask(capabilities: tuple[str, ...] | None) -> int | None:
    if capabilities is None:
        return None
    mask = 0
    for name in capabilities:
        try:
            mask |= 1 << CAPABILITIES.index(name.removeprefix("CAP_"))
        except ValueError:
            raise ProgramStartError("CapabilityUnknown", f"there is no capability {name}") from None
    return mask


def _drop(number: int) -> None:
    try:
        kernel.prctl(kernel.PR_CAPBSET_DROP, number)
    except OSError as error:
        # EINVAL: unknown to an older kernel. EPERM: we are not root, and have none to pass on.
        if error.errno not in (errno.EINVAL, errno.EPERM):
            raise


def _limit(kept: int) -> None:
    with open("/proc/self/status") as status:
        ours = next(int(line.split()[1], 16) for line in status if line.startswith("CapPrm"))
    kernel.set_capabilities(kept & ours)
