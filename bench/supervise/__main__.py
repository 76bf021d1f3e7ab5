"""What a container costs beside its program: time to start, run inside and stop, memory of its shim, pace of its log.

python -m bench.supervise
python -m bench.supervise --rounds 100
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from pilothouse.supervise.containers import Container, start
from pilothouse.supervise.launch_spec import FilesystemView, LaunchSpec, LogPolicy, Mount

ENV = {"PATH": "/usr/bin:/bin"}
LINES = 1_000_000


class Bench:
    def __init__(self, folder: Path, rounds: int) -> None:
        self.folder = folder
        self.rounds = rounds
        self._number = 0

    async def run(self, *argv: str, view: FilesystemView | None = None) -> Container:
        self._number += 1
        folder = self.folder / str(self._number)
        log = LogPolicy(str(folder / "log"), max_bytes=10 << 20, files=2)
        return await start(folder, LaunchSpec(argv=argv, env=ENV, view=view, log=log))

    async def times(self, act: Callable[[], Awaitable[float]]) -> str:
        """Milliseconds: the median, and the worst of a hundred or of all."""
        taken = sorted([await act() * 1000 for _ in range(self.rounds)])
        return f"{statistics.median(taken):6.1f} ms, slowest {taken[-1]:.1f} ms"

    async def life(self, view: FilesystemView | None) -> tuple[str, str, str]:
        """Starting, running something inside, stopping."""
        containers: list[Container] = []

        async def begin() -> float:
            begun = time.perf_counter()
            containers.append(await self.run("sleep", "1000", view=view))
            return time.perf_counter() - begun

        async def inside() -> float:
            begun = time.perf_counter()
            entered = await containers[-1].enter(["true"])
            await entered.exited()
            taken = time.perf_counter() - begun
            await entered.close()
            return taken

        async def end() -> float:
            container = containers.pop()
            begun = time.perf_counter()
            await container.stop(9, 0)
            return time.perf_counter() - begun

        return await self.times(begin), await self.times(inside), await self.times(end)

    async def memory(self) -> dict[str, int]:
        """KiB of a shim that has passed on some output and now idles, with twenty like it."""
        containers = [
            await self.run("sh", "-c", "seq 1 20000; exec sleep 1000", view=FilesystemView("bench"))
            for _ in range(20)
        ]
        await asyncio.sleep(1)
        figures = _memory(containers[0].state.shim_pid)
        for container in containers:
            await container.stop(9, 0)
        return figures

    async def idle(self) -> float:
        """Ticks of processor time that an idle shim takes in five seconds."""
        container = await self.run("sleep", "1000", view=FilesystemView("bench"))
        before = _ticks(container.state.shim_pid)
        await asyncio.sleep(5)
        spent = _ticks(container.state.shim_pid) - before
        await container.stop(9, 0)
        return spent

    async def pace(self) -> tuple[float, float]:
        """Lines, and MB of output, a second, in a burst: what comes after is held to `shim.logs.RATE`."""
        begun = time.perf_counter()
        await (await self.run("seq", "1", str(LINES))).exited()
        taken = time.perf_counter() - begun
        begun = time.perf_counter()
        await (
            await self.run(
                "sh",
                "-c",
                "yes 'a line of eighty bytes, as servers write them, with time, level, and so on.....' | head -c 40000000",
            )
        ).exited()
        return LINES / taken, 40 / (time.perf_counter() - begun)


def _memory(pid: int) -> dict[str, int]:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    figures = {line.split()[0].rstrip(":"): int(line.split()[1]) for line in lines[1:]}
    return {
        "Rss": figures["Rss"],
        "Pss": figures["Pss"],
        "private": figures["Private_Dirty"] + figures["Private_Clean"],
    }


def _ticks(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=50)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory(prefix="pilothouse-bench-") as folder:
        bench = Bench(Path(folder), rounds)
        view = FilesystemView("bench", mounts=tuple(Mount(folder, f"/bench/{number}") for number in range(5)))
        for name, seen in (("plain", None), ("view, 5 mounts", view)):
            for what, figure in zip(("start", "run inside", "kill"), await bench.life(seen), strict=True):
                print(f"{what:12} {name:16} {figure}")
        memory = await bench.memory()
        print(
            f"memory of a shim: {', '.join(f'{name} {size / 1024:.1f} MiB' for name, size in memory.items())}"
        )
        print(f"processor time of an idle shim in 5 s: {await bench.idle()} ticks")
        lines, megabytes = await bench.pace()
        print(f"log: {lines:,.0f} short lines/s, {megabytes:.0f} MB/s of lines of 80 bytes")


asyncio.run(main())
