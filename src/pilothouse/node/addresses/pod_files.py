"""Writes the hosts and resolver files of pods, and updates them while they are mounted.

    files = PodFiles(settings.pods)
    files.set_names(names_of(services, slices))
    files.write(pod, "127.70.4.1")        # /etc/hosts and /etc/resolv.conf of a pod, below its directory
    files.revise(pod, "127.70.4.1")       # the hosts file, if the pod has one

An existing hosts file is left alone until names are known.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from pilothouse.api.objects import Object
from pilothouse.node.addresses.dns_names import DNSName
from pilothouse.node.addresses.hosts_file import name_lines, own_lines, revisions
from pilothouse.node.addresses.resolv_conf import resolver_text
from pilothouse.node.files.directory_handles import closing_handle

HOSTS: Final = "hosts"
RESOLVER: Final = "resolv.conf"
_FLAGS: Final = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
"""Non-blocking: a pod's lease on its file (fcntl(2), F_SETLEASE) would block an open for 45 seconds."""
_LONGEST: Final = 32 << 20
"""Bytes of a hosts file: more names than a cluster has."""

log = logging.getLogger(__name__)


class PodFiles:
    """The files of pods, each below a directory named by the pod's uid."""

    def __init__(self, folder: Path, *, etc: Path = Path("/etc")) -> None:
        """``etc`` has the node's own files."""
        self._folder = folder
        self._etc = etc
        self._names: frozenset[DNSName] | None = None
        self._lines: dict[str, list[str]] = {}

    def set_names(self, names: frozenset[DNSName]) -> bool:
        """Replace the known names; whether they changed."""
        if names == self._names:
            return False
        self._names, self._lines = names, {}
        return True

    def hosts(self, uid: str) -> Path:
        return self._folder / uid / HOSTS

    def resolver(self, uid: str) -> Path:
        return self._folder / uid / RESOLVER

    def write(self, pod: Object, address: str) -> None:
        hosts = self.hosts(pod.uid)
        hosts.parent.mkdir(parents=True, exist_ok=True)
        with _created(hosts) as file:
            is_empty = not os.fstat(file).st_size
        if self._names is not None or is_empty:
            self.revise(pod, address)
        content = resolver_text(pod, _text(self._etc / RESOLVER)).encode()
        # In place, as it may be mounted already; only the node's own part can change during a pod's life.
        with _created(self.resolver(pod.uid)) as file:
            if os.pread(file, len(content) + 1, 0) != content:
                os.ftruncate(file, 0)
                os.pwrite(file, content, 0)

    def revise(self, pod: Object, address: str) -> bool:
        """Update a pod's hosts file; False if it has none."""
        of_node = _text(self._etc / HOSTS).splitlines() if pod.spec.get("hostNetwork") else ()
        lines = [*own_lines(pod, address, of_node=of_node), *self._known(pod.namespace)]
        try:
            file = os.open(self.hosts(pod.uid), _FLAGS)
        except FileNotFoundError:
            return False
        except BlockingIOError:
            log.warning("pod %s/%s holds a lease on its hosts file, which stays as it is for now", *pod.key)
            return True
        with closing_handle(file):
            if os.fstat(file).st_size > _LONGEST:
                os.ftruncate(file, 0)  # The pod wrote to its own file. Don't read all of that into memory.
            for write in revisions(os.pread(file, _LONGEST, 0), lines):
                os.pwrite(file, write.content, write.offset)
        return True

    def _known(self, namespace: str) -> list[str]:
        """The lines of all names, cached by namespace."""
        if namespace not in self._lines:
            self._lines[namespace] = name_lines(self._names or (), within=namespace)
        return self._lines[namespace]


@contextmanager
def _created(path: Path) -> Iterator[int]:
    """Open a file, created if missing, that all users of a pod can read whatever the umask."""
    with closing_handle(os.open(path, _FLAGS | os.O_CREAT, 0o644)) as file:
        os.fchmod(file, 0o644)
        yield file


def _text(path: Path) -> str:
    """A file of the node; empty if missing."""
    try:
        return path.read_text(errors="replace")
    except FileNotFoundError:
        return ""
