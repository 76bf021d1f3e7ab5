"""A real Elasticsearch, with a pilot beside each node, on loopback addresses of its own; run by an ordinary user.

home = unpacked("8.17.0", folder)
node = PilotedNode("es-demo-data-0", address, home, folder, kubeconfig)
node.start(); ...; node.end()
"""

from __future__ import annotations

import json
import os
import pwd
import random
import shutil
import site
import stat
import subprocess
import urllib.request
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.apiserver.metrics.scraped import Scraped
from tests.kit import tools
from tests.kit.ordinary_user import ROOT, interpreter
from tests.kit.processes import Process

HEAP = "-Xms256m -Xmx256m -XX:TieredStopAtLevel=1"
"""And no compiler that takes its time: the nodes live for minutes."""
ANY_DISK = {"cluster.routing.allocation.disk.threshold_enabled": False}
"""Settings for every cluster of a test: how full the disk of this machine is has nothing to do with any."""


def unpacked(version: str, folder: Path) -> Path:
    """The home of a version, unpacked into a folder. Raises ``MissingTool``."""
    archive = tools.folder() / "elasticsearch" / f"elasticsearch-{version}.zip"
    if not archive.exists():
        raise tools.MissingTool(f"{archive} is not there; scripts/tools/elasticsearch {version} brings it")
    if shutil.which("java") is None:
        raise tools.MissingTool("there is no java on PATH; Debian has it as openjdk-17-jre-headless")
    with zipfile.ZipFile(archive) as file:
        for entry in file.infolist():
            extracted = Path(file.extract(entry, folder))
            extracted.chmod(stat.S_IMODE(entry.external_attr >> 16) or extracted.stat().st_mode)
    home = folder / f"elasticsearch-{version}"
    subprocess.run(["chmod", "-R", "a+rX", str(home)], check=True)
    return home


def addresses(count: int) -> list[str]:
    """Of loopback, and not those that anybody else is likely to have."""
    block = f"127.{random.randrange(100, 250)}.{random.randrange(1, 250)}"
    return [f"{block}.{number + 1}" for number in range(count)]


class PilotedNode:
    """One node and its pilot's process."""

    def __init__(
        self,
        name: str,
        address: str,
        home: Path,
        folder: Path,
        kubeconfig: Path,
        *,
        namespace: str = "default",
        environ: Mapping[str, str] | None = None,
    ) -> None:
        """``environ`` is what the pod's container is told besides."""
        self.name = name
        self.address = address
        self.home = home
        self.namespace = namespace
        self._folder = folder
        self._kubeconfig = kubeconfig
        self._environ = dict(environ or {})
        self._starts = 0
        self.process: Process | None = None

    def start(self) -> None:
        """The pilot, which starts the node once it has its Pilot."""
        user = pwd.getpwnam("nobody") if os.geteuid() == 0 else pwd.getpwuid(os.geteuid())
        data = self._folder / self.name
        data.mkdir(exist_ok=True)
        become: list[str] = []
        if os.geteuid() == 0:
            os.chown(data, user.pw_uid, user.pw_gid)
            become = ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups", "--"]
        argv = [*become, interpreter(user), "-m", "pilothouse", "pilot", "elasticsearch"]
        argv += ["--name", self.name, "--namespace", self.namespace, "--address", self.address]
        argv += ["--data", str(data), "--kubeconfig", str(self._kubeconfig)]
        self._starts += 1
        self.process = Process.start(
            f"the pilot of {self.name}",
            argv,
            log=self._folder / f"{self.name}-{self._starts}.log",
            env={
                **self._environ,
                "ES_HOME": str(self.home),
                "HOME": str(data),
                "PYTHONDONTWRITEBYTECODE": "1",
                "PYTHONPATH": ":".join([str(ROOT / "src"), *site.getsitepackages()]),
            },
        )

    def hurry(self) -> None:
        """Tell it to stop, and wait for nothing."""
        assert self.process is not None
        self.process.popen.terminate()

    def end(self, *, seconds: float = 60) -> int:
        assert self.process is not None
        return self.process.end(seconds=seconds)

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """A request to the node itself. Raises ``urllib.error.URLError``."""
        lines = (
            "".join(json.dumps(each) + "\n" for each in body) if isinstance(body, list) else json.dumps(body)
        )
        kind = "application/x-ndjson" if isinstance(body, list) else "application/json"
        request = urllib.request.Request(
            f"http://{self.address}:9200{path}",
            method=method,
            data=lines.encode() if body is not None else None,
            headers={"Content-Type": kind},
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.loads(answer.read() or b"{}")

    def metrics(self) -> Scraped:
        """What its pilot tells Prometheus. Raises ``urllib.error.URLError``."""
        with urllib.request.urlopen(f"http://{self.address}:12001/metrics", timeout=30) as answer:
            return Scraped.read(answer.read())
