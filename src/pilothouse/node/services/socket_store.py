"""Listening sockets that outlive the agent, so that no other process takes a service's address while it restarts.

    store = SocketStore(*ends)               # both ends of a socket pair, which whoever starts the agent holds as well
    inherited = store.take()                 # what an agent before this one kept: {ListenAddress("127.96.3.7", 5432): <socket>}
    store.keep(server.fileno() for server in servers)

They lie in the pair's queue, as messages that nobody has read: a descriptor that was sent is open until then. Who connects while no agent
runs waits to be accepted.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterable
from typing import Final

from pilothouse.node.services.backends import ListenAddress

_PER_MESSAGE: Final = 200
"""Descriptors; the kernel takes 253 at most (SCM_MAX_FD)."""

log = logging.getLogger(__name__)


class SocketStore:
    """What is in the queue of a socket pair."""

    def __init__(self, writing: socket.socket, reading: socket.socket) -> None:
        self._writing, self._reading = writing, reading
        for each in (writing, reading):
            each.setblocking(False)
            each.set_inheritable(False)

    def take(self) -> dict[ListenAddress, socket.socket]:
        """Those that are kept, by where they listen. They stay in the store as well, until others are kept."""
        taken: dict[ListenAddress, socket.socket] = {}
        while True:
            try:
                _, descriptors, _, _ = socket.recv_fds(self._reading, 1, _PER_MESSAGE)
            except BlockingIOError:
                break
            if not descriptors:
                break
            for descriptor in descriptors:
                each = socket.socket(fileno=descriptor)
                each.setblocking(False)
                taken[ListenAddress(*each.getsockname())] = each
        self.keep(each.fileno() for each in taken.values())
        return taken

    def keep(self, descriptors: Iterable[int]) -> None:
        """Keep these, and no others."""
        self._forget()
        wanted = list(descriptors)
        try:
            for start in range(0, len(wanted), _PER_MESSAGE):
                socket.send_fds(self._writing, [b"."], wanted[start : start + _PER_MESSAGE])
        except OSError as problem:
            log.warning(
                "ports of services are not held while the next agent starts: %s", problem.strerror or problem
            )

    def _forget(self) -> None:
        """Read what there is, without the descriptors: the kernel closes them."""
        try:
            while self._reading.recv(1):
                pass
        except BlockingIOError:
            return
