"""The files by which names are found inside pods, on disk: written once, and revised while they are mounted.

files = PodFiles(settings.pods)
files.write(pod, "127.70.4.1", names)        # /etc/hosts and /etc/resolv.conf of a pod, below its folder
files.revise(pod, "127.70.4.1", names)       # the hosts file, if the pod has one
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from pilothouse.api.objects import Object
from pilothouse.node.addresses.hosts_file import hosts_lines, revisions
from pilothouse.node.addresses.names import Name
from pilothouse.node.addresses.resolver import resolver_text

HOSTS: Final = "hosts"
RESOLVER: Final = "resolv.conf"


class PodFiles:
    """Files of pods, each below a folder of the pod's uid."""

    def __init__(self, folder: Path, *, etc: Path = Path("/etc")) -> None:
        """``etc`` is where the node's own such files are."""
        self._folder = folder
        self._etc = etc

    def hosts(self, uid: str) -> Path:
        return self._folder / uid / HOSTS

    def resolver(self, uid: str) -> Path:
        return self._folder / uid / RESOLVER

    def write(self, pod: Object, address: str, names: Iterable[Name] | None) -> None:
        """Have both files, with what is known. Without names (None) a hosts file that is there stays as it is."""
        hosts = self.hosts(pod.uid)
        hosts.parent.mkdir(parents=True, exist_ok=True)
        hosts.touch(0o644)
        if names is not None or not hosts.stat().st_size:
            self.revise(pod, address, names or ())
        text = resolver_text(pod, _text(self._etc / RESOLVER))
        resolver = self.resolver(pod.uid)
        # In place, as it may be mounted already; it does not change while a pod lives, but for the node's own part.
        if not resolver.exists() or resolver.read_text() != text:
            resolver.write_text(text)

    def revise(self, pod: Object, address: str, names: Iterable[Name]) -> bool:
        """Bring a pod's hosts file up to date; False if it has none."""
        of_node = _text(self._etc / HOSTS).splitlines() if pod.spec.get("hostNetwork") else ()
        lines = hosts_lines(pod, address, names, of_node=of_node)
        try:
            file = os.open(self.hosts(pod.uid), os.O_RDWR)
        except FileNotFoundError:
            return False
        try:
            size = os.fstat(file).st_size
            for write in revisions(os.pread(file, size, 0), lines):
                os.pwrite(file, write.content, write.offset)
        finally:
            os.close(file)
        return True


def _text(path: Path) -> str:
    """A file of the node; a machine may have none."""
    try:
        return path.read_text(errors="replace")
    except FileNotFoundError:
        return ""
