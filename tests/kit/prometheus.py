"""A real Prometheus, Debian's, with the configuration that it is given.

    with Prometheus(config, folder) as prometheus:
        prometheus.query("up")                       # [({"job": "pilothouse-apiserver", …}, 1.0)]
        await eventually(…)

It scrapes every second. Raises ``MissingTool`` where there is none.
"""

from __future__ import annotations

import json
import urllib.parse
import urllib.request
from collections.abc import Sequence
from pathlib import Path

from tests.kit.processes import Process, free_port
from tests.kit.tools import find

Samples = list[tuple[dict[str, str], float]]


class Prometheus:
    """Running within the context."""

    def __init__(self, config: str, folder: Path, flags: Sequence[str] = ()) -> None:
        self._flags = flags
        self._program = find("prometheus")
        self._folder = folder
        self._port = free_port()
        self._config = folder / "prometheus.yml"
        self._config.write_text("global: {scrape_interval: 1s}\n" + config)
        self.process: Process | None = None

    def __enter__(self) -> Prometheus:
        argv = [str(self._program), f"--config.file={self._config}", "--log.level=warn"]
        argv += [
            f"--storage.tsdb.path={self._folder / 'tsdb'}",
            f"--web.listen-address=127.0.0.1:{self._port}",
            *self._flags,
        ]
        self.process = Process.start("prometheus", argv, log=self._folder / "prometheus.log")
        return self

    def __exit__(self, *_: object) -> None:
        if self.process is not None:
            self.process.end()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def query(self, text: str) -> Samples:
        """What it answers; nothing while it does not."""
        try:
            found = json.loads(self.page(f"/api/v1/query?{urllib.parse.urlencode({'query': text})}"))
        except OSError:
            return []
        return [(each["metric"], float(each["value"][1])) for each in found["data"]["result"]]

    def page(self, path: str) -> bytes:
        """One of its own pages. Raises ``OSError``."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self._port}{path}", timeout=5) as answer:
            read: bytes = answer.read()
            return read
