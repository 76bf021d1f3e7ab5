"""What has no path: abstract sockets, System V memory, message queues, terminals, keys, cgroups, processes."""

from __future__ import annotations

import ctypes
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from tests.kit.containers import INSTALLATION, PLAIN_VIEW, Box, needs_ordinary_user, with_mounts

from pilothouse.supervise.launch_spec import ProcessUser

SCOPED = ctypes.CDLL(None).syscall(444, None, ctypes.c_size_t(0), 1) >= 6
"""Whether this kernel's Landlock can tell abstract sockets apart."""
needs_scopes = pytest.mark.skipif(
    not SCOPED, reason="abstract sockets are scoped by Landlock since Linux 6.12"
)
KEY_CALLS = {"x86_64": (248, 250), "aarch64": (217, 219)}
"""The numbers of add_key and keyctl."""
SEEN = with_mounts(PLAIN_VIEW, machine=INSTALLATION)

_CONNECT = """
import socket, sys
try:
    socket.socket(socket.AF_UNIX).connect("\\0" + sys.argv[1])
except OSError as error:
    print(error.strerror)
else:
    print("connected")
"""
_LISTEN = """
import socket, sys, time
listening = socket.socket(socket.AF_UNIX)
listening.bind("\\0" + sys.argv[1])
listening.listen()
print("up", flush=True)
time.sleep(1000)
"""


async def inside(box: Box, script: str, *arguments: str) -> list[str]:
    container = await box.run(sys.executable, "-c", script, *arguments, view=SEEN)
    await container.exited()
    return box.output(container) + box.output(container, "stderr")


@needs_scopes
async def test_an_abstract_socket_of_the_machine_is_not_reached(views: Box, tmp_path: Path) -> None:
    name = f"pilothouse-test-{tmp_path}"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("\0" + name)
        listening.listen()
        assert await inside(views, _CONNECT, name) == ["Operation not permitted"]


@needs_scopes
async def test_its_own_abstract_sockets_are_reached_from_all_of_it(views: Box, tmp_path: Path) -> None:
    name = f"pilothouse-test-{tmp_path}"
    container = await views.run(sys.executable, "-c", _LISTEN, name, view=SEEN)
    await views.says(container, "up")
    entered = await container.enter([sys.executable, "-c", _CONNECT, name])
    assert await entered.stdout.read() == b"connected\n"
    await entered.close()
    assert await inside(views, _CONNECT, name) == ["Operation not permitted"]


async def test_who_runs_something_inside_sees_all_of_its_program(views: Box) -> None:
    """As debuggers and a JVM's own tools need."""
    container = await views.run("sleep", "1000", env={"PATH": "/usr/bin:/bin", "A": "b"})
    entered = await container.enter(
        ["sh", "-c", "tr '\\0' ' ' < /proc/1/environ; ls /proc/1/root/ | grep usr; ls /proc/1/fd | wc -l"]
    )
    said = (await entered.stdout.read()).decode()
    await entered.close()
    assert "A=b" in said
    assert said.split()[-2:] == ["usr", "3"]


def do(*argv: str) -> str:
    """What a program of the machine prints."""
    return subprocess.run(argv, stdout=subprocess.PIPE, text=True, check=True).stdout


async def test_shared_memory_and_queues_of_the_machine_are_not_there(views: Box) -> None:
    number = do("ipcmk", "-M", "4096", "-p", "0666").split()[-1]
    try:
        container = await views.shell("ipcs -m; ls -A /dev/mqueue")
        await container.exited()
        assert not any(line.split()[1:2] == [number] for line in views.output(container))
    finally:
        do("ipcrm", "-m", number)


async def test_terminals_of_others_are_not_there(views: Box) -> None:
    """And its own has a name."""
    master, slave = os.openpty()
    try:
        container = await views.shell("ls -A /dev/pts; tty", tty=True)
        await container.exited()
        assert views.output(container) == ["0  ptmx\r", "/dev/pts/0\r"]
    finally:
        os.close(master)
        os.close(slave)


async def test_one_container_does_not_take_all_terminals_of_the_machine(views: Box) -> None:
    program = """
import os
taken = []
try:
    while len(taken) < 300:
        taken.append(os.open("/dev/ptmx", os.O_RDWR))
except OSError as error:
    print(error.strerror)
print(len(taken))
"""
    assert await inside(views, program) == ["No space left on device", "64"]


@needs_ordinary_user  # Root's are the machine's: see test_containers_run_in_user_namespaces.py.
@pytest.mark.parametrize("entered", [False, True], ids=["its-program", "entered"])
async def test_what_is_read_only_stays_so_whatever_capabilities_it_has(views: Box, entered: bool) -> None:
    attempts = ("mount -o remount,bind,rw /usr", "umount /proc/keys", "umount /dev/null", "umount -l /usr")
    script = "; ".join(f"{each} 2>/dev/null && echo 'did {each}'" for each in attempts)
    script += "; grep CapEff /proc/self/status; mount -t tmpfs none /mnt && echo mounts of its own"
    said = await as_entered(views, script) if entered else await as_program(views, script)
    assert int(said[0].split()[1], 16) >> 21 & 1, "with CAP_SYS_ADMIN"
    assert said[1:] == ["mounts of its own"]


async def as_program(box: Box, script: str) -> list[str]:
    container = await box.shell(script, user=ProcessUser(0, 0))
    await container.exited()
    return box.output(container)


async def as_entered(box: Box, script: str) -> list[str]:
    container = await box.run("sleep", "1000", user=ProcessUser(0, 0))
    entered = await container.enter(["sh", "-c", script])
    said = (await entered.stdout.read()).decode()
    await entered.close()
    return said.splitlines()


@needs_ordinary_user  # Root without a user namespace could do worse; with one, the interpreter is nobody's of it.
async def test_the_interpreter_that_started_it_cant_be_taken_from_other_containers(views: Box) -> None:
    """By this name a program gets what it was started by, on the machine's own mount, and may be its owner to the kernel."""
    victim = await views.run("sleep", "60", view=SEEN)
    program = "import os; os.fchmod(os.open('/proc/self/exe', os.O_RDONLY), 0)"
    attacker = await views.run("/proc/self/exe", "-I", "-S", "-c", program, view=SEEN)
    await attacker.exited()
    after = await views.shell("echo starts")
    await after.exited()
    assert views.output(after) == ["starts"]
    entered = await victim.enter(["/bin/echo", "enters"])
    assert await entered.stdout.read() == b"enters\n"
    await entered.close()


async def test_it_sees_no_cgroups_but_its_own(views: Box) -> None:
    container = await views.shell(
        "find /sys/fs/cgroup -name cgroup.procs | wc -l; cut -d: -f3 /proc/self/cgroup | sort -u"
    )
    await container.exited()
    assert views.output(container) == ["0", "/"]


async def test_nothing_that_it_starts_with_is_open(views: Box) -> None:
    """Of the machine's files that were open while its view was made, none is left to it."""
    container = await views.shell(
        "ls -l /proc/self/fd | awk 'NF > 8 {print $9, $11}' | grep -v -e pipe: -e /proc/ -e /dev/null"
    )
    await container.exited()
    assert views.output(container) == []


_SEARCH = """
import ctypes, sys
libc = ctypes.CDLL(None, use_errno=True)
found = libc.syscall({keyctl}, 10, -3, b"user", sys.argv[1].encode(), 0)
print("found" if found >= 0 else "not found")
"""


@pytest.mark.skipif(
    os.uname().machine not in KEY_CALLS, reason="the numbers of the calls are of other machines"
)
async def test_keys_of_the_agents_session_reach_no_shim_nor_what_it_starts(bare: Box, tmp_path: Path) -> None:
    """A container without a view takes over the shim's session keyring, as helpers that enter a container do."""
    add_key, keyctl = KEY_CALLS[os.uname().machine]
    libc = ctypes.CDLL(None, use_errno=True)
    name = f"pilothouse-test-{tmp_path}"
    key = libc.syscall(add_key, b"user", name.encode(), b"secret", ctypes.c_size_t(6), -3)
    if key < 0:
        pytest.skip(f"no keys here: {os.strerror(ctypes.get_errno())}")
    try:
        search = _SEARCH.format(keyctl=keyctl)
        here = do(sys.executable, "-c", search, name)
        container = await bare.run(sys.executable, "-c", search, name)
        await container.exited()
        assert (here, bare.output(container)) == ("found\n", ["not found"])
    finally:
        libc.syscall(keyctl, 9, key, -3)
