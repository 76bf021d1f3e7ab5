"""A process that starts a container, as a node agent does, and can be killed at any moment.

agent = Agent.spawn(folder, launch)
agent.begins()                  # it calls `start` now
agent.kill()                    # -9
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec

from pilothouse.supervise.launch_spec import LaunchSpec

SCRIPT = """
import asyncio, pathlib, sys
import msgspec
from pilothouse.supervise.containers import start
from pilothouse.supervise.launch_spec import LaunchSpec

async def main():
    folder = pathlib.Path(sys.argv[1])
    launch = msgspec.json.decode(sys.stdin.buffer.readline(), type=LaunchSpec)
    print("begins", flush=True)
    container = await start(folder, launch)
    print("started", container.pid, flush=True)
    await container.exited()

asyncio.run(main())
"""


class Agent:
    """One such process. Its own code is loaded, and it waits, until told to begin."""

    def __init__(self, process: subprocess.Popen[bytes], launch: LaunchSpec) -> None:
        self._process = process
        self._launch = launch

    @classmethod
    def spawn(cls, folder: Path, launch: LaunchSpec) -> Agent:
        process = subprocess.Popen(
            [sys.executable, "-c", SCRIPT, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        return cls(process, launch)

    def begins(self) -> None:
        """Returns as it calls `start`."""
        assert self._process.stdin is not None
        self._process.stdin.write(msgspec.json.encode(self._launch) + b"\n")
        self._process.stdin.flush()
        assert self.hears() == ["begins"]

    def hears(self) -> list[str]:
        """The next line it says."""
        assert self._process.stdout is not None
        return self._process.stdout.readline().decode().split()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()
