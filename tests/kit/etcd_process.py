"""One etcd member as a process, with the two maintenance acts that cases about history need.

etcd = EtcdProcess.start(folder)
etcd.url
etcd.compact()       # revisions before the latest are gone
etcd.end()
"""

from __future__ import annotations

import base64
import json
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.kit import tools
from tests.kit.processes import Process, free_port


@dataclass(frozen=True)
class EtcdProcess:
    url: str
    process: Process

    @classmethod
    def start(cls, folder: Path) -> EtcdProcess:
        client, peer = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
        options = {
            "data-dir": str(folder / "data"),
            "listen-client-urls": client,
            "advertise-client-urls": client,
            "listen-peer-urls": peer,
            "initial-advertise-peer-urls": peer,
            "initial-cluster": f"default={peer}",
            "log-level": "warn",
            # An idle watch learns the store's revision this often; bookmarks depend on it.
            "experimental-watch-progress-notify-interval": "500ms",
        }
        argv = [str(tools.find("etcd")), *(f"--{name}={value}" for name, value in options.items())]
        process = Process.start("etcd", argv, log=folder / "etcd.log")
        etcd = cls(client, process)
        try:
            process.wait_until(etcd.is_healthy, seconds=30)
        except BaseException:
            process.kill()
            raise
        return etcd

    def is_healthy(self) -> bool:
        try:
            with urllib.request.urlopen(self.url + "/health", timeout=5) as answer:
                return b'"true"' in answer.read()
        except (urllib.error.URLError, OSError):
            return False

    def revision(self) -> int:
        nothing = base64.b64encode(b"\0").decode()
        return int(self._call("kv/range", {"key": nothing, "count_only": True})["header"]["revision"])

    def compact(self) -> None:
        """Forget every revision before the latest."""
        self._call("kv/compaction", {"revision": str(self.revision()), "physical": True})

    def end(self) -> None:
        self.process.end()

    def _call(self, method: str, body: dict[str, Any]) -> dict[str, Any]:
        request = urllib.request.Request(f"{self.url}/v3/{method}", json.dumps(body).encode())
        with urllib.request.urlopen(request, timeout=10) as answer:
            found: dict[str, Any] = json.loads(answer.read())
            return found
