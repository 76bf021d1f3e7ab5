"""What makes a container: our shim, or an OCI runtime below it. Start, exec and memory of each, side by side.

python -m bench.supervise.runtimes
python -m bench.supervise.runtimes --rounds 50 --seccomp profile.json

The ways take turns within one run, so that a busy machine is busy for all of them; compare the ratios, not the times.
Needs root. A runtime that is not installed is left out.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import signal
import statistics
import subprocess
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pilothouse.supervise.containers import Container, start
from pilothouse.supervise.launch_spec import FilesystemView, IdRange, LaunchSpec, LogPolicy, Mount
from pilothouse.supervise.seccomp import compiled
from pilothouse.supervise.seccomp_default import RUNTIME_DEFAULT

RUNTIMES = ("crun", "runc")
SECONDS = 30.0
"""How long a program may take until it says that it runs."""
ENV = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
PROGRAM = ("/bin/sh", "-c", "echo + > /bench/0/running; exec sleep 1000")
FIRST_ID, IDS = 200_000, 65_536
SHOWN = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc/alternatives", "/etc/ssl/certs", "/etc/passwd")
CAPABILITIES = (
    *("CHOWN", "DAC_OVERRIDE", "FSETID", "FOWNER", "MKNOD", "NET_RAW", "SETGID", "SETUID", "SETFCAP"),
    *("SETPCAP", "NET_BIND_SERVICE", "SYS_CHROOT", "KILL", "AUDIT_WRITE"),
)
REFUSED = (
    *("acct", "add_key", "bpf", "clock_adjtime", "clock_settime", "create_module", "delete_module"),
    *("finit_module", "fsconfig", "fsmount", "fsopen", "fspick", "get_kernel_syms", "get_mempolicy"),
    *("init_module", "ioperm", "iopl", "kcmp", "kexec_file_load", "kexec_load", "keyctl", "lookup_dcookie"),
    *("mbind", "mount", "mount_setattr", "move_mount", "move_pages", "name_to_handle_at", "nfsservctl"),
    *("open_by_handle_at", "open_tree", "perf_event_open", "pivot_root", "process_vm_readv"),
    *("process_vm_writev", "ptrace", "query_module", "quotactl", "reboot", "request_key", "set_mempolicy"),
    *("setns", "settimeofday", "stime", "swapoff", "swapon", "sysfs", "umount", "umount2", "unshare"),
    *("uselib", "userfaultfd", "ustat", "vm86", "vm86old"),
)
"""What the default profiles of container runtimes refuse; loading their longer list of what is allowed takes longer."""
MASKED = ("/proc/acpi", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/timer_list", "/proc/scsi")
READ_ONLY = ("/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger")


@dataclass
class Way:
    """One way to make a container, with what its rounds took, in seconds."""

    name: str
    begin: Callable[[], Awaitable[None]]
    """Returns when it was asked for; the program itself says when it runs."""
    inside: Callable[[], Awaitable[None]]
    end: Callable[[], Awaitable[None]]
    settled: Callable[[], Awaitable[None]] | None = None
    """Returns when others may ask about it, which can be later than the program runs."""
    containers: list[Container] = field(default_factory=list)
    """Those that our shim runs, or runs the runtime of."""
    started: list[float] = field(default_factory=list)
    entered: list[float] = field(default_factory=list)
    ended: list[float] = field(default_factory=list)


class Bench:
    def __init__(self, folder: Path, seccomp: dict[str, Any]) -> None:
        self.folder = folder
        self.seccomp = seccomp
        self._number = 0
        folder.chmod(0o755)  # Ids of a user namespace have to reach their root.
        os.mkfifo(folder / "running")
        os.chmod(folder / "running", 0o666)
        self._running = os.open(folder / "running", os.O_RDWR | os.O_NONBLOCK)

    def number(self) -> str:
        self._number += 1
        return f"bench-{os.getpid()}-{self._number}"

    async def running(self) -> None:
        """The program that was begun last has said that it runs."""
        loop = asyncio.get_running_loop()
        said = loop.create_future()
        loop.add_reader(self._running, lambda: None if said.done() else said.set_result(None))
        try:
            await asyncio.wait_for(said, SECONDS)
        finally:
            loop.remove_reader(self._running)
        os.read(self._running, 64)

    def ours(self) -> Way:
        """The shim as it is."""
        mounts = tuple(Mount(str(self.folder), f"/bench/{number}", mapped=True) for number in range(5))
        containers: list[Container] = []

        async def begin() -> None:
            folder = self.folder / self.number()
            launch = LaunchSpec(
                argv=PROGRAM,
                env=ENV,
                view=FilesystemView("bench", mounts=mounts),
                ids=IdRange(FIRST_ID, IDS),
                seccomp=compiled(RUNTIME_DEFAULT, os.uname().machine, CAPABILITIES),
                capabilities=CAPABILITIES,
                no_new_privileges=True,
                log=LogPolicy(str(folder / "log")),
            )
            containers.append(await start(folder, launch))

        async def inside() -> None:
            entered = await containers[-1].enter(["true"])
            assert await entered.exited() == 0
            await entered.close()

        async def end() -> None:
            await containers.pop().stop(signal.SIGKILL, 0)

        return Way("our shim", begin, inside, end, containers=containers)

    def below(self, runtime: str, *, shim: bool) -> Way:
        """A runtime, alone or with our shim as the one that waits for it and has the log."""
        names: list[str] = []
        containers: list[Container] = []

        async def begin() -> None:
            name = self.number()
            names.append(name)
            bundle = self.folder / name
            self.write_bundle(bundle)
            if shim:
                launch = LaunchSpec(
                    argv=(runtime, "run", "--bundle", str(bundle), name),
                    env=ENV,
                    log=LogPolicy(str(bundle / "log")),
                )
                containers.append(await start(self.folder / f"{name}-shim", launch))
            else:
                await _call(runtime, "run", "--detach", "--bundle", str(bundle), name)

        async def inside() -> None:
            await _call(runtime, "exec", names[-1], "true")

        async def end() -> None:
            if shim:  # In the foreground it removes what it has made itself.
                await _call(runtime, "kill", names.pop(), "KILL")
                await containers.pop().exited()
            else:
                await _call(runtime, "delete", "--force", names.pop())

        async def settled() -> None:
            for _ in range(1000):
                if _known(runtime, names[-1]):
                    return
                await asyncio.sleep(0.01)
            raise RuntimeError(f"{runtime} does not know {names[-1]}, which runs")

        name = f"{runtime} below our shim" if shim else f"{runtime} alone"
        return Way(name, begin, inside, end, settled, containers)

    def write_bundle(self, bundle: Path) -> None:
        root = bundle / "rootfs"
        root.mkdir(parents=True)
        os.chown(root, FIRST_ID, FIRST_ID)
        text = json.dumps(self.bundle(), separators=(",", ":"))
        (bundle / "config.json").write_text(text)

    def bundle(self) -> dict[str, Any]:
        quiet = ["nosuid", "noexec", "nodev"]
        capabilities = [f"CAP_{name}" for name in CAPABILITIES]
        mapping = [{"containerID": 0, "hostID": FIRST_ID, "size": IDS}]
        links = [path for path in SHOWN if os.path.islink(path)]
        binds = [(path, path, "ro") for path in SHOWN if os.path.exists(path) and path not in links]
        binds += [(os.path.realpath(path), path, "ro") for path in links]
        binds += [(str(self.folder), f"/bench/{number}", "rw") for number in range(5)]
        return {
            "ociVersion": "1.0.2",
            "process": {
                "user": {"uid": 0, "gid": 0},
                "args": list(PROGRAM),
                "env": [f"{name}={value}" for name, value in ENV.items()],
                "cwd": "/",
                "capabilities": dict.fromkeys(("bounding", "effective", "permitted"), capabilities),
                "noNewPrivileges": True,
            },
            "root": {"path": "rootfs", "readonly": False},
            "hostname": "bench",
            "mounts": [
                {"destination": "/proc", "type": "proc", "source": "proc", "options": quiet},
                {
                    "destination": "/dev",
                    "type": "tmpfs",
                    "source": "tmpfs",
                    "options": ["nosuid", "mode=755", "size=65536k"],
                },
                {
                    "destination": "/dev/pts",
                    "type": "devpts",
                    "source": "devpts",
                    "options": ["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"],
                },
                {
                    "destination": "/dev/shm",
                    "type": "tmpfs",
                    "source": "shm",
                    "options": [*quiet, "mode=1777"],
                },
                {"destination": "/tmp", "type": "tmpfs", "source": "tmp", "options": [*quiet, "mode=1777"]},
                *(
                    {
                        "destination": target,
                        "type": "bind",
                        "source": source,
                        "options": ["rbind", mode, "nosuid", "nodev"],
                    }
                    for source, target, mode in binds
                ),
            ],
            "linux": {
                "namespaces": [{"type": kind} for kind in ("pid", "ipc", "uts", "mount", "user")],
                "uidMappings": mapping,
                "gidMappings": mapping,
                "maskedPaths": list(MASKED),
                "readonlyPaths": list(READ_ONLY),
                "seccomp": self.seccomp,
            },
        }

    async def measure(self, ways: list[Way], rounds: int) -> None:
        for _ in range(rounds):
            for way in ways:
                begun = time.perf_counter()
                await way.begin()
                await self.running()
                way.started.append(time.perf_counter() - begun)
                if way.settled is not None:
                    await way.settled()
                begun = time.perf_counter()
                await way.inside()
                way.entered.append(time.perf_counter() - begun)
                begun = time.perf_counter()
                await way.end()
                way.ended.append(time.perf_counter() - begun)

    async def memory(self, runtime: str | None) -> str:
        """KiB of what stays beside a program: a shim, and a runtime that is not told to leave."""
        way = self.ours() if runtime is None else self.below(runtime, shim=True)
        begun = [await self._begun(way) for _ in range(10)]
        await asyncio.sleep(1)
        shims = [_pss(pid) for pid, _ in begun]
        found = f"shim {statistics.median(shims) / 1024:.1f} MiB"
        if runtime is not None:
            stayed = [_pss(child) for _, child in begun]
            found += f", {runtime} in the foreground {statistics.median(stayed) / 1024:.1f} MiB more"
        for _ in begun:
            await way.end()
        return found

    async def _begun(self, way: Way) -> tuple[int, int]:
        """The shim's pid and its child's."""
        await way.begin()
        await self.running()
        if way.settled is not None:
            await way.settled()
        shim = way.containers[-1].state.shim_pid
        return shim, _child(shim)


def _child(pid: int) -> int:
    return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])


def _pss(pid: int) -> int:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))


async def _call(*command: str) -> None:
    """What it complains of goes to a file: a detached program would keep a pipe open."""
    with tempfile.TemporaryFile() as complaint:
        process = await asyncio.create_subprocess_exec(
            *command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=complaint
        )
        code = await asyncio.wait_for(process.wait(), SECONDS)
        if code:
            complaint.seek(0)
            said = complaint.read().decode(errors="replace").strip()
            raise RuntimeError(f"{' '.join(command[:2])} exited with {code}: {said}")


def _known(runtime: str, name: str) -> bool:
    asked = subprocess.run((runtime, "state", name), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return asked.returncode == 0 and json.loads(asked.stdout)["status"] == "running"


async def _works(bench: Bench, runtime: str) -> bool:
    """Whether it can make a container here at all; says so if not."""
    way = bench.below(runtime, shim=False)
    try:
        await way.begin()
        await bench.running()
    except (RuntimeError, TimeoutError) as error:
        print(f"skipped: {runtime} can't make a container here: {error}")
        return False
    await way.end()
    return True


def _table(ways: list[Way]) -> str:
    lines = [f"{'':24}{'start':>20}{'exec':>20}{'kill':>20}"]
    first = ways[0]
    for way in ways:
        cells = []
        for mine, ours in (
            (way.started, first.started),
            (way.entered, first.entered),
            (way.ended, first.ended),
        ):
            median = statistics.median(mine)
            cells.append(f"{median * 1000:9.1f} ms ({median / statistics.median(ours):4.2f})")
        lines.append(f"{way.name:24}" + "".join(f"{cell:>20}" for cell in cells))
    return "\n".join(lines)


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seccomp", type=Path, help="the seccomp section of a bundle, instead of ours")
    arguments = parser.parse_args()
    if os.geteuid():
        raise SystemExit("skipped: other users have no range of ids to give a container; run it as root")
    runtimes = [runtime for runtime in RUNTIMES if shutil.which(runtime)]
    for missing in sorted(set(RUNTIMES) - set(runtimes)):
        print(f"skipped: {missing} is not installed (on Debian: apt-get install {missing})")
    if not runtimes:
        return
    seccomp: dict[str, Any] = {
        "defaultAction": "SCMP_ACT_ALLOW",
        "syscalls": [{"names": list(REFUSED), "action": "SCMP_ACT_ERRNO"}],
    }
    if arguments.seccomp is not None:
        seccomp = json.loads(arguments.seccomp.read_text())
    with tempfile.TemporaryDirectory(prefix="pilothouse-bench-") as temporary:
        bench = Bench(Path(temporary), seccomp)
        ways = [bench.ours()]
        runtimes = [runtime for runtime in runtimes if await _works(bench, runtime)]
        for runtime in runtimes:
            ways += [bench.below(runtime, shim=False), bench.below(runtime, shim=True)]
        await bench.measure(ways, arguments.rounds)
        print(f"medians of {arguments.rounds} rounds, and their ratio to our shim's")
        print(_table(ways))
        print(f"memory beside a program (PSS): our way: {await bench.memory(None)}")
        for runtime in runtimes:
            print(f"memory beside a program (PSS): {runtime} below it: {await bench.memory(runtime)}")


if __name__ == "__main__":
    asyncio.run(main())
