"""wrk as the load generator: one thread, kept-alive TLS connections, prepared requests.

    flow = Wrk(folder).run(access, access.request("GET", path), clients=16, seconds=2)
    flow.rate, flow.p99

wrk is written in C and spends a few microseconds a request, so what is measured is the server. An answer that is not
a success fails the run: refusing fast is no merit.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from bench.api.access import Access

SCRIPT = Path(__file__).with_name("wrk.lua")

# What stands in a request for its serial number, and for that number modulo the slots (see wrk.lua).
SERIAL = "########"
SLOT = "@@@@@@@@"


class LoadFailed(Exception):
    """The load could not be put on a server, or the server refused it."""


@dataclass(frozen=True)
class Flow:
    """What came of a load."""

    requests: int
    seconds: float
    bytes: int
    p50: float
    p99: float

    @property
    def rate(self) -> float:
        return self.requests / self.seconds


class Wrk:
    def __init__(self, folder: Path) -> None:
        found = shutil.which("wrk")
        if not found:
            raise LoadFailed("wrk is not on PATH; on Debian: apt-get install wrk, or scripts/tools/wrk")
        self._program = found
        self._folder = folder

    def run(self, access: Access, request: bytes, *, clients: int, seconds: int, slots: int = 1) -> Flow:
        """Put the request on the server for so long, from so many connections."""
        with tempfile.NamedTemporaryFile(dir=self._folder, suffix=".request") as file:
            file.write(request)
            file.flush()
            argv = [self._program, "-t1", f"-c{clients}", f"-d{seconds}s", "--timeout", "30s"]
            argv += ["-s", str(SCRIPT), access.url, "--", file.name, str(slots)]
            ran = subprocess.run(argv, capture_output=True, text=True, timeout=seconds + 60)
        lines = ran.stdout.strip().splitlines()
        if ran.returncode or not lines or not lines[-1].startswith("{"):
            raise LoadFailed(f"wrk ended with {ran.returncode}: {ran.stdout[-500:]} {ran.stderr[-500:]}")
        said = json.loads(lines[-1])
        if said["refused"] or said["broken"] or not said["requests"]:
            line = request.split(b"\r\n", 1)[0]
            raise LoadFailed(f"{line!r} at {access.url}: {said}")
        return Flow(said["requests"], said["seconds"], said["bytes"], said["p50"], said["p99"])
