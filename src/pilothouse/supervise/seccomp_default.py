"""The profile `RuntimeDefault`: the system calls that container runtimes allow by default.

    compiled(RUNTIME_DEFAULT, os.uname().machine, capabilities)

It is the allow-list of containerd and Docker, for two architectures. What the kernel guards by a capability
is only for containers with that capability. Never allowed are keyrings (they belong to a user, not to a
container), `io_uring`, `userfaultfd`, `kexec`, swap, `pivot_root` and sockets of `AF_VSOCK` (the hypervisor)
and `AF_ALG`. `clone3` fails with ENOSYS, since a filter can't see its flags; C libraries then use `clone`,
which makes no namespaces here.

Under an ordinary user's agent all containers have one user (`SHARED_USER_DEFAULT`). There set-user-id and
set-group-id files are forbidden, which would run as that user: a user of the machine can pass a container a
descriptor of a directory to make one in. So is `SO_REUSEPORT`, by which containers of one user could take
each other's connections: it fails as on a kernel without it.
"""

from __future__ import annotations

import errno
import os
import socket
import stat
from itertools import product
from typing import Final

from pilothouse.supervise.seccomp import SeccompArgument, SeccompProfile, SeccompRule, SeccompScope

_FILES: Final = """
    access cachestat chdir chmod chown close close_range copy_file_range creat dup dup2 dup3 faccessat
    faccessat2 fadvise64 fallocate fanotify_mark fchdir fchmod fchmodat fchmodat2 fchown fchownat fcntl
    fdatasync fgetxattr flistxattr flock fremovexattr fsetxattr fstat fstatfs fsync ftruncate futimesat
    getcwd getdents getdents64 getxattr getxattrat inotify_add_watch inotify_init inotify_init1
    inotify_rm_watch ioctl lchown lgetxattr link linkat listxattr listxattrat llistxattr lremovexattr lseek
    lsetxattr lstat mkdir mkdirat mknod mknodat name_to_handle_at newfstatat open openat openat2 pipe pipe2
    pread64 preadv preadv2 pwrite64 pwritev pwritev2 read readahead readlink readlinkat readv removexattr
    removexattrat rename renameat renameat2 rmdir sendfile setxattr setxattrat splice stat statfs statx
    symlink symlinkat sync sync_file_range syncfs tee truncate umask unlink unlinkat utime utimensat utimes
    vmsplice write writev
"""
_MEMORY: Final = """
    brk madvise map_shadow_stack membarrier memfd_create memfd_secret mincore mlock mlock2 mlockall mmap
    mprotect mremap mseal msync munlock munlockall munmap pkey_alloc pkey_free pkey_mprotect process_mrelease
    remap_file_pages
"""
_PROCESSES: Final = """
    capget capset execve execveat exit exit_group fork get_robust_list get_thread_area getcpu getegid geteuid
    getgid getgroups getpgid getpgrp getpid getppid getpriority getresgid getresuid getrlimit getrusage
    getsid gettid getuid ioprio_get ioprio_set kill landlock_add_rule landlock_create_ruleset
    landlock_restrict_self pause pidfd_open pidfd_send_signal prctl prlimit64 process_vm_readv
    process_vm_writev ptrace restart_syscall rseq rt_sigaction rt_sigpending rt_sigprocmask rt_sigqueueinfo
    rt_sigreturn rt_sigsuspend rt_sigtimedwait rt_tgsigqueueinfo sched_get_priority_max
    sched_get_priority_min sched_getaffinity sched_getattr sched_getparam sched_getscheduler
    sched_rr_get_interval sched_setaffinity sched_setattr sched_setparam sched_setscheduler sched_yield
    seccomp set_robust_list set_thread_area set_tid_address setfsgid setfsuid setgid setgroups setpgid
    setpriority setregid setresgid setresuid setreuid setrlimit setsid setuid sigaltstack signalfd signalfd4
    tgkill tkill uretprobe vfork wait4 waitid
"""
_COMMUNICATION: Final = """
    accept accept4 bind connect epoll_create epoll_create1 epoll_ctl epoll_ctl_old epoll_pwait epoll_pwait2
    epoll_wait epoll_wait_old eventfd eventfd2 futex futex_requeue futex_wait futex_waitv futex_wake
    getpeername getsockname getsockopt io_cancel io_destroy io_getevents io_pgetevents io_setup io_submit
    listen mq_getsetattr mq_notify mq_open mq_timedreceive mq_timedsend mq_unlink msgctl msgget msgrcv msgsnd
    poll ppoll pselect6 recvfrom recvmmsg recvmsg select semctl semget semop semtimedop sendmmsg sendmsg
    sendto setsockopt shmat shmctl shmdt shmget shutdown socketpair
"""
_MISCELLANY: Final = """
    adjtimex alarm clock_adjtime clock_getres clock_gettime clock_nanosleep getitimer getrandom gettimeofday
    nanosleep setitimer sysinfo time timer_create timer_delete timer_getoverrun timer_gettime timer_settime
    timerfd_create timerfd_gettime timerfd_settime times uname
"""
_BY_CAPABILITY: Final = {
    "BPF": "bpf",
    "DAC_READ_SEARCH": "open_by_handle_at",
    "PERFMON": "perf_event_open",
    "SYS_ADMIN": """
        bpf clone clone3 fanotify_init fsconfig fsmount fsopen fspick listmount lookup_dcookie mount
        mount_setattr move_mount open_tree perf_event_open quotactl quotactl_fd setdomainname sethostname
        setns statmount syslog umount2 unshare
    """,
    "SYS_BOOT": "reboot",
    "SYS_CHROOT": "chroot",
    "SYS_MODULE": "delete_module finit_module init_module",
    "SYS_NICE": "get_mempolicy mbind set_mempolicy set_mempolicy_home_node",
    "SYS_PACCT": "acct",
    "SYS_PTRACE": "kcmp pidfd_getfd process_madvise",
    "SYS_RAWIO": "ioperm iopl",
    "SYS_TIME": "clock_settime settimeofday",
    "SYS_TTY_CONFIG": "vhangup",
    "SYSLOG": "syslog",
}
_NAMESPACES: Final = 0x7E020000
"""The flags of `clone` that make namespaces."""
_PERSONALITIES: Final = (0x0, 0x8, 0x20000, 0x20008, 0xFFFFFFFF)
"""Linux's own, that of 32-bit programs, either with a `uname` of 2.6, and the query."""


def _allow(
    names: str,
    *args: SeccompArgument,
    includes: SeccompScope | None = None,
    excludes: SeccompScope | None = None,
) -> SeccompRule:
    return SeccompRule(
        "SCMP_ACT_ALLOW", tuple(names.split()), args=args or None, includes=includes, excludes=excludes
    )


_WITHOUT_ADMIN: Final = SeccompScope(caps=("CAP_SYS_ADMIN",))

RUNTIME_DEFAULT: Final = SeccompProfile(
    default_action="SCMP_ACT_ERRNO",
    default_errno_ret=errno.EPERM,
    syscalls=(
        _allow(_FILES),
        _allow(_MEMORY),
        _allow(_PROCESSES),
        _allow(_COMMUNICATION),
        _allow(_MISCELLANY),
        _allow("arch_prctl modify_ldt", includes=SeccompScope(arches=("amd64",))),
        _allow(
            "socket",
            *(
                SeccompArgument(0, family, "SCMP_CMP_NE", is_int=True)
                for family in (socket.AF_VSOCK, socket.AF_ALG)
            ),
        ),
        *(
            _allow("personality", SeccompArgument(0, each, "SCMP_CMP_EQ", is_int=True))
            for each in _PERSONALITIES
        ),
        *(
            _allow(names, includes=SeccompScope(caps=(f"CAP_{capability}",)))
            for capability, names in _BY_CAPABILITY.items()
        ),
        _allow(
            "clone",
            SeccompArgument(0, _NAMESPACES, "SCMP_CMP_MASKED_EQ", is_int=True),
            excludes=_WITHOUT_ADMIN,
        ),
        SeccompRule("SCMP_ACT_ERRNO", ("clone3",), errno_ret=errno.ENOSYS, excludes=_WITHOUT_ADMIN),
    ),
)

_MODES: Final = {"chmod": 1, "creat": 1, "fchmod": 1, "fchmodat": 2, "fchmodat2": 2, "mknod": 1, "mknodat": 2}
"""Calls that set the mode of a file, and the index of that argument."""
_OPENING: Final = {"open": 1, "openat": 2}
"""Calls with a mode if a flag says so, and the index of the flags, right before the mode."""
_CREATING: Final = (os.O_CREAT, os.O_TMPFILE & ~os.O_DIRECTORY)
_SET_IDS: Final = (stat.S_ISUID, stat.S_ISGID)


def _has(index: int, bits: int) -> SeccompArgument:
    return SeccompArgument(index, bits, "SCMP_CMP_MASKED_EQ", value_two=bits, is_int=True)


SHARED_USER_DEFAULT: Final = SeccompProfile(
    default_action=RUNTIME_DEFAULT.default_action,
    default_errno_ret=RUNTIME_DEFAULT.default_errno_ret,
    syscalls=(
        *(
            SeccompRule("SCMP_ACT_ERRNO", (name,), args=(_has(mode, bit),))
            for (name, mode), bit in product(_MODES.items(), _SET_IDS)
        ),
        *(
            SeccompRule("SCMP_ACT_ERRNO", (name,), args=(_has(flags, flag), _has(flags + 1, bit)))
            for (name, flags), flag, bit in product(_OPENING.items(), _CREATING, _SET_IDS)
        ),
        # A filter can't see its flags and mode; programs then use openat.
        SeccompRule("SCMP_ACT_ERRNO", ("openat2",), errno_ret=errno.ENOSYS),
        SeccompRule(
            "SCMP_ACT_ERRNO",
            ("setsockopt",),
            args=(
                SeccompArgument(1, socket.SOL_SOCKET, "SCMP_CMP_EQ", is_int=True),
                SeccompArgument(2, socket.SO_REUSEPORT, "SCMP_CMP_EQ", is_int=True),
            ),
            errno_ret=errno.ENOPROTOOPT,
        ),
        *RUNTIME_DEFAULT.syscalls,
    ),
)
"""`RUNTIME_DEFAULT`, for containers that share the agent's user."""
