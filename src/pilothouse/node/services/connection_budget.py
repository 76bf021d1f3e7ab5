"""Limits the proxy's listeners and connections, and chooses the addresses that get a listener when there are too many.

    budget = ConnectionBudget.of(open_files=1024)                  # ConnectionBudget(listeners=256, connections=256)
    served = within_budget(table, budget.listeners, listening)

Every listener and each end of a connection is an open file of the agent, which needs some for everything else. Of all open files
a quarter at most are listeners and half are ends of connections; the rest is the agent's.

When there are more places than listeners, each namespace has an equal share of them, and what one does not need goes to the
others: the namespace with the most places loses first. Within a namespace those that are listened at stay, and the older
services come before the newer.
"""

from __future__ import annotations

import resource
from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from pilothouse.node.services.backends import Backend, ListenAddress

_PER_CONNECTION: Final = 2
"""Open files: the client's end and the endpoint's."""


class ConnectionBudget(NamedTuple):
    """What the proxy may open."""

    listeners: int
    connections: int

    @classmethod
    def of(cls, open_files: int) -> ConnectionBudget:
        """For a process that may have so many files open."""
        return cls(open_files // 4, open_files // 2 // _PER_CONNECTION)

    @classmethod
    def of_this_process(cls) -> ConnectionBudget:
        """By this process's limit (``RLIMIT_NOFILE``)."""
        return cls.of(resource.getrlimit(resource.RLIMIT_NOFILE)[0])


def within_budget(
    table: Mapping[ListenAddress, Backend], listeners: int, listening: Collection[ListenAddress]
) -> frozenset[ListenAddress]:
    """The places of a table that may be listened at. ``listening`` are those that are."""
    if len(table) <= listeners:
        return frozenset(table)
    wanted: dict[str, list[ListenAddress]] = {}
    for at, backend in table.items():
        wanted.setdefault(backend.owner.namespace, []).append(at)
    served: set[ListenAddress] = set()
    left = listeners
    # The most modest first: what they leave over is shared by those who want more.
    modest = sorted(wanted.items(), key=lambda one: (len(one[1]), one[0]))
    for index, (_, places) in enumerate(modest):
        # Rounded up, so that with more namespaces than listeners the first ones still get theirs.
        share = -(-left // (len(modest) - index))
        places.sort(key=lambda at: (at not in listening, table[at].created, table[at].owner, at))
        served.update(places[:share])
        left -= min(share, len(places))
    return frozenset(served)
