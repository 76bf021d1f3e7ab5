"""Limits the proxy's listeners and connections, and chooses which addresses get a listener.

    budget = ConnectionBudget.of(open_files=1024)     # ConnectionBudget(listeners=256, connections=256)
    served = within_budget(table, budget.listeners, listening)

Of the agent's open files at most a quarter are listeners, and half are ends of connections. If there are more
addresses than listeners, namespaces get equal shares, and what one doesn't need goes to the others. Within a
namespace current listeners stay, and older services precede newer ones.
"""

from __future__ import annotations

import resource
from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from pilothouse.node.services.backends import Backend, ListenAddress

_PER_CONNECTION: Final = 2
"""Open files: the client's end and the endpoint's."""


class ConnectionBudget(NamedTuple):
    listeners: int
    connections: int

    @classmethod
    def of(cls, open_files: int) -> ConnectionBudget:
        return cls(open_files // 4, open_files // 2 // _PER_CONNECTION)

    @classmethod
    def of_this_process(cls) -> ConnectionBudget:
        """From this process's ``RLIMIT_NOFILE``."""
        return cls.of(resource.getrlimit(resource.RLIMIT_NOFILE)[0])


def within_budget(
    table: Mapping[ListenAddress, Backend], listeners: int, listening: Collection[ListenAddress]
) -> frozenset[ListenAddress]:
    """The addresses of a table that get a listener; ``listening`` have one."""
    if len(table) <= listeners:
        return frozenset(table)
    wanted: dict[str, list[ListenAddress]] = {}
    for at, backend in table.items():
        wanted.setdefault(backend.owner.namespace, []).append(at)
    served: set[ListenAddress] = set()
    left = listeners
    # Ascending by demand: what the smaller ones leave is shared by the others.
    demands = sorted(wanted.items(), key=lambda one: (len(one[1]), one[0]))
    for index, (_, places) in enumerate(demands):
        # Rounded up, so that with more namespaces than listeners the first ones get one.
        share = -(-left // (len(demands) - index))
        places.sort(key=lambda at: (at not in listening, table[at].created, table[at].owner, at))
        served.update(places[:share])
        left -= min(share, len(places))
    return frozenset(served)
