"""Listening sockets that outlive the process that serves them: ``up`` passes them to each start of a child.

    held = bind_sockets("127.0.0.1", 6443)               # in ``up``
    flags_of(held)                                       # ("--listen-fd", "7")
    sockets = inherited_sockets((7,))                    # in the child

Otherwise any pod on the host network could bind the port while the process is restarted. Clients that connect
meanwhile wait to be accepted.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterable, Sequence
from typing import Final

from pilothouse.app.options import StartError, explain

FLAG: Final = "--listen-fd"
_BACKLOG: Final = 128

log = logging.getLogger(__name__)


def bind_sockets(host: str, port: int, *, family: int = socket.AF_UNSPEC) -> list[socket.socket]:
    """One for each address of a host, at one port, a free one for 0. Raises ``StartError``."""
    held: list[socket.socket] = []
    try:
        found = socket.getaddrinfo(host, port, family, socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for kind, address in dict.fromkeys((entry[0], str(entry[4][0])) for entry in found):
            try:
                held.append(_listening(kind, address, held[0].getsockname()[1] if held else port))
            except OSError as problem:
                if not held:
                    raise
                log.warning("not listening at %s, another address of %s: %s", address, host, problem)
    except OSError as problem:
        raise StartError(f"can't listen on {host}:{port}: {explain(problem)}") from None
    return held


def flags_of(sockets: Iterable[socket.socket]) -> tuple[str, ...]:
    """The flags that pass the sockets to a child."""
    return tuple(word for each in sockets for word in (FLAG, str(each.fileno())))


def inherited_sockets(descriptors: Iterable[int]) -> Sequence[socket.socket]:
    """The sockets passed by the parent. Programs that this process starts do not inherit them."""
    sockets = [socket.socket(fileno=each) for each in descriptors]
    for each in sockets:
        each.set_inheritable(False)
        each.setblocking(False)
    return sockets


def _listening(kind: int, address: str, port: int) -> socket.socket:
    made = socket.socket(kind, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if kind == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        made.bind((address, port))
        # At once: until it listens, others with SO_REUSEADDR can bind the same port.
        made.listen(_BACKLOG)
    except BaseException:
        made.close()
        raise
    return made
