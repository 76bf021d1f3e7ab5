"""A pilot has 45 MB in all: what it talks to the API with must leave room, and never bring in the server."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys
import pilothouse.client.http_transport, pilothouse.client.in_cluster, pilothouse.client.shared_informers
import pilothouse.client.leader_election
heavy = ("pilothouse.store", "pilothouse.apiserver", "yaml", "apsw", "cryptography", "jsonschema_rs", "uvloop", "grpc")
print(sorted(name for name in sys.modules if name.startswith(heavy)))
print(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1])
"""


def test_it_loads_nothing_of_the_server_and_leaves_a_pilot_room() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=True
    )
    loaded, kilobytes = ended.stdout.splitlines()
    assert loaded == "[]"
    assert int(kilobytes) < 42_000
