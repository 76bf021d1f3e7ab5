"""The command as a user runs it: a process, its output, its exit code."""

from __future__ import annotations

import json
import os
import re
import signal
import ssl
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from base64 import b64decode
from pathlib import Path
from typing import NamedTuple

PATIENCE = 60.0
_READY = re.compile(r"pilothouse apiserver is ready at (https://\S+) \(kubeconfig: (.+)\)\n")


def pilothouse(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command to its end."""
    return subprocess.run(
        [sys.executable, "-m", "pilothouse", *arguments],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
        env={**os.environ, **environment},
    )


class Answer(NamedTuple):
    status: int
    body: bytes


class Server:
    """``pilothouse apiserver`` on a free port; stopped at the end of the context."""

    def __init__(
        self, data: Path, *flags: str, command: tuple[str, ...] = (sys.executable, "-m", "pilothouse")
    ) -> None:
        self._argv = [*command, "apiserver", "--data", str(data), "--listen", "127.0.0.1:0", *flags]

    def __enter__(self) -> Server:
        self.process = subprocess.Popen(self._argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        timer = threading.Timer(PATIENCE, self.process.kill)
        timer.start()
        try:
            assert self.process.stdout is not None
            self.line = self.process.stdout.readline()
        finally:
            timer.cancel()
        ready = _READY.fullmatch(self.line)
        if ready is None:
            self.process.kill()
            raise AssertionError(f"not ready: {self.line!r} {self.process.communicate()[1]}")
        self.url = ready[1]
        self.kubeconfig = Path(ready[2])
        return self

    def __exit__(self, *exception: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()

    def stop(self, number: signal.Signals = signal.SIGTERM) -> tuple[int, str, str]:
        """Ask it to stop: its exit code, and what it said besides the line that it is ready."""
        self.process.send_signal(number)
        out, err = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, out, err

    def get(self, path: str, *, admin: bool = True, token: str = "") -> Answer:
        """A request with the administrator's certificate, a token, or neither."""
        config = json.loads(self.kubeconfig.read_text())
        authority = b64decode(config["clusters"][0]["cluster"]["certificate-authority-data"]).decode()
        context = ssl.create_default_context(cadata=authority)
        if admin:
            user = config["users"][0]["user"]
            pair = self.kubeconfig.parent / "pair.pem"
            pair.write_bytes(b64decode(user["client-certificate-data"]) + b64decode(user["client-key-data"]))
            context.load_cert_chain(pair)
        request = urllib.request.Request(self.url + path)
        if token:
            request.add_header("Authorization", f"Bearer {token}")
        try:
            with urllib.request.urlopen(request, context=context, timeout=PATIENCE) as answer:
                return Answer(answer.status, answer.read())
        except urllib.error.HTTPError as refused:
            return Answer(refused.code, refused.read())
