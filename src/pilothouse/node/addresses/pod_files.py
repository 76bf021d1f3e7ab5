"""Writes the hosts and resolver files of pods, and updates them while they are mounted.

    files = PodFiles(settings.pods)
    files.know(names_of(services, slices))
    files.write(pod, "127.70.4.1")        # /etc/hosts and /etc/resolv.conf of a pod, below its folder
    files.revise(pod, "127.70.4.1")       # the hosts file, if the pod has one

As long as no names are known, a hosts file that is there stays as it is.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Final

from pilothouse.api.objects import Object
from pilothouse.node.addresses.dns_names import DNSName
from pilothouse.node.addresses.hosts_file import name_lines, own_lines, revisions
from pilothouse.node.addresses.resolv_conf import resolver_text

HOSTS: Final = "hosts"
RESOLVER: Final = "resolv.conf"
_FLAGS: Final = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
"""Not to be kept waiting: a pod may hold a lease on its own file (fcntl(2), F_SETLEASE), which stops who opens it for 45 seconds."""
_LONGEST: Final = 32 << 20
"""Bytes of a hosts file: more names than a cluster has."""

log = logging.getLogger(__name__)


class PodFiles:
    """Files of pods, each below a folder of the pod's uid."""

    def __init__(self, folder: Path, *, etc: Path = Path("/etc")) -> None:
        """``etc`` is where the node's own such files are."""
        self._folder = folder
        self._etc = etc
        self._names: frozenset[DNSName] | None = None
        self._lines: dict[str, list[str]] = {}

    def know(self, names: frozenset[DNSName]) -> bool:
        """These are the names from here on; whether that is something new."""
        if names == self._names:
            return False
        self._names, self._lines = names, {}
        return True

    def hosts(self, uid: str) -> Path:
        return self._folder / uid / HOSTS

    def resolver(self, uid: str) -> Path:
        return self._folder / uid / RESOLVER

    def write(self, pod: Object, address: str) -> None:
        """Have both files, with what is known."""
        hosts = self.hosts(pod.uid)
        hosts.parent.mkdir(parents=True, exist_ok=True)
        file = os.open(hosts, _FLAGS | os.O_CREAT, 0o644)
        try:
            os.fchmod(file, 0o644)  # Whatever the umask: a pod's users are others than the agent's.
        finally:
            os.close(file)
        if self._names is not None or not hosts.stat().st_size:
            self.revise(pod, address)
        text = resolver_text(pod, _text(self._etc / RESOLVER))
        resolver = self.resolver(pod.uid)
        # In place, as it may be mounted already; it does not change while a pod lives, but for the node's own part.
        content = text.encode()
        file = os.open(resolver, _FLAGS | os.O_CREAT, 0o644)
        try:
            os.fchmod(file, 0o644)
            if os.pread(file, len(content) + 1, 0) != content:
                os.ftruncate(file, 0)
                os.pwrite(file, content, 0)
        finally:
            os.close(file)

    def revise(self, pod: Object, address: str) -> bool:
        """Bring a pod's hosts file up to date; False if it has none."""
        of_node = _text(self._etc / HOSTS).splitlines() if pod.spec.get("hostNetwork") else ()
        lines = [*own_lines(pod, address, of_node=of_node), *self._known(pod.namespace)]
        try:
            file = os.open(self.hosts(pod.uid), _FLAGS)
        except FileNotFoundError:
            return False
        except BlockingIOError:
            log.warning("pod %s/%s holds a lease on its hosts file, which stays as it is for now", *pod.key)
            return True
        try:
            if os.fstat(file).st_size > _LONGEST:
                os.ftruncate(
                    file, 0
                )  # A pod that writes its own file made it so; it is not read into our memory.
            for write in revisions(os.pread(file, _LONGEST, 0), lines):
                os.pwrite(file, write.content, write.offset)
        finally:
            os.close(file)
        return True

    def _known(self, namespace: str) -> list[str]:
        """The lines of all names, made once for a namespace."""
        if namespace not in self._lines:
            self._lines[namespace] = name_lines(self._names or (), within=namespace)
        return self._lines[namespace]


def _text(path: Path) -> str:
    """A file of the node; a machine may have none."""
    try:
        return path.read_text(errors="replace")
    except FileNotFoundError:
        return ""
