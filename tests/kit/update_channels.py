"""Channels that `pilothouse updates serve` serves over https, and that `pilothouse updates publish` fills.

with UpdateChannels.serving(folder) as channels:
    channels.publish("stable", "v2.0.0", program("v2.0.0"))
    channels.url, channels.authority
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.kit.certificates import Authority
from tests.kit.processes import Process
from tests.kit.update_fleet import PLATFORM


class UpdateChannels:
    def __init__(self, folder: Path, url: str, authority: Path) -> None:
        """``authority`` is the file of the CA."""
        self._folder = folder
        self.url = url
        self.authority = authority

    @classmethod
    @contextmanager
    def serving(cls, folder: Path) -> Iterator[UpdateChannels]:
        served = folder / "channels"
        served.mkdir(parents=True)
        authority = Authority.create(folder / "pki")
        pair = authority.server()
        argv = [*_PILOTHOUSE, "serve", str(served), "--listen", "127.0.0.1:0"]
        argv += ["--tls-cert-file", str(pair.cert), "--tls-private-key-file", str(pair.key)]
        process = Process.start("pilothouse updates serve", argv, log=folder / "serve.log")
        try:
            found = process.wait_until(lambda: re.search(r"https://\S+", process.output()), seconds=60)
            _run("key", str(folder / "keys"))
            yield cls(folder, found[0], authority.cert)
        finally:
            process.kill()

    def publish(self, channel: str, version: str, program: bytes, bundle: bytes = b"") -> None:
        program_file = self._payload(version, "program", program)
        flags = ["--dir", str(self._folder / "channels"), "--keys", str(self._folder / "keys")]
        if bundle:
            flags += ["--bundle", f"{PLATFORM}={self._payload(version, 'bundle.tar', bundle)}"]
        _run("publish", channel, version, f"{PLATFORM}={program_file}", *flags)

    def _payload(self, version: str, name: str, content: bytes) -> Path:
        path = self._folder / "payloads" / version / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return path


_PILOTHOUSE = (sys.executable, "-m", "pilothouse", "updates")


def _run(*arguments: str) -> None:
    done = subprocess.run([*_PILOTHOUSE, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
