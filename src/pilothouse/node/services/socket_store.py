"""Listening sockets that outlive the agent, so that no other process takes a service's address while it
restarts.

    store = SocketStore(*ends)           # both ends of a socket pair, which the agent's parent holds as well
    inherited = store.take()             # of the last agent: {ListenAddress("127.96.3.7", 5432): <socket>}
    store.keep(server.fileno() for server in servers)

They are in the pair's queue as unread messages: a descriptor that was sent stays open until it is received.
Meanwhile connections wait in the backlog.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterable
from typing import Final

from pilothouse.node.services.backends import ListenAddress

_PER_MESSAGE: Final = 200
"""Descriptors; the kernel's limit is 253 (SCM_MAX_FD)."""

log = logging.getLogger(__name__)


class SocketStore:
    def __init__(self, writing: socket.socket, reading: socket.socket) -> None:
        self._writing, self._reading = writing, reading
        for each in (writing, reading):
            each.setblocking(False)
            each.set_inheritable(False)

    def take(self) -> dict[ListenAddress, socket.socket]:
        """The kept sockets, by address. They stay in the store, until others are kept."""
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
        self._clear()
        wanted = list(descriptors)
        try:
            for start in range(0, len(wanted), _PER_MESSAGE):
                socket.send_fds(self._writing, [b"."], wanted[start : start + _PER_MESSAGE])
        except OSError as problem:
            why = problem.strerror or problem
            log.warning("failed to keep the sockets of services for the next agent: %s", why)

    def _clear(self) -> None:
        """Drop the queue: the kernel closes descriptors that are not received."""
        try:
            while self._reading.recv(1):
                pass
        except BlockingIOError:
            return
