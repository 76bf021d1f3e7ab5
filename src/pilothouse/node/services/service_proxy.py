"""The service proxy: listens at the addresses of services, and forwards connections to their endpoints.

    proxy = ServiceProxy(clock, rng, ConnectionBudget.of_this_process())
    await proxy.settle(table)        # listen at these addresses and no others
    proxy.problems                   # {ListenAddress("127.96.3.7", 80): ListenProblem(owner, "shop/web …")}
    await proxy.close()

New endpoints apply to new connections; open ones stay, also when their service is deleted. An address that
can't be bound is retried with each ``settle``. Beyond the limit of connections, the newest one of the
namespace with the most is reset.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections import Counter
from collections.abc import Mapping
from random import Random
from typing import Final, NamedTuple

from pilothouse.base.clock import Clock
from pilothouse.node.services.backends import Backend, ListenAddress, PortOwner
from pilothouse.node.services.connection_budget import ConnectionBudget, within_budget
from pilothouse.node.services.forwarding import ClientSide, ForwardingSide, reset
from pilothouse.node.services.load_balancer import LoadBalancer
from pilothouse.node.services.socket_store import SocketStore

CONNECTING: Final = 5.0
"""Seconds for an endpoint to answer, before the next is tried."""
_BACKLOG: Final = 512

log = logging.getLogger(__name__)


class ListenProblem(NamedTuple):
    """An address that can't be listened at, and its owner."""

    owner: PortOwner
    message: str
    in_use: bool = False
    """Whether another program has it."""


class ServiceProxy:
    def __init__(
        self, clock: Clock, rng: Random, budget: ConnectionBudget, store: SocketStore | None = None
    ) -> None:
        """``store`` keeps listening sockets for the next agent, and has those of the previous one."""
        self._budget = budget
        self._store = store
        self._inherited = store.take() if store is not None else {}
        self._balance = LoadBalancer(clock, rng)
        self._table: dict[ListenAddress, Backend] = {}
        self._servers: dict[ListenAddress, asyncio.Server] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._live: dict[asyncio.Transport, str] = {}
        """Connections of clients, the oldest first, and the namespace of each."""
        self._held: Counter[str] = Counter()
        """The number of connections per namespace."""
        self.problems: dict[ListenAddress, ListenProblem] = {}

    @property
    def listening(self) -> frozenset[ListenAddress]:
        return frozenset(self._servers)

    @property
    def connections(self) -> int:
        return len(self._live)

    @property
    def in_use(self) -> frozenset[ListenAddress]:
        """The addresses that another program has."""
        return frozenset(at for at, problem in self.problems.items() if problem.in_use)

    async def settle(self, table: Mapping[ListenAddress, Backend]) -> None:
        """Listen at the addresses of this table and no others."""
        self._table = dict(table)
        served = within_budget(table, self._budget.listeners, self._servers.keys())
        before = dict(self._servers)
        for at in self._servers.keys() - served:
            _stop_listening(self._servers.pop(at))
        for at in self.problems.keys() - table.keys():
            del self.problems[at]
        for at, backend in table.items():
            if at not in served:
                self.problems[at] = ListenProblem(backend.owner, self._beyond(backend.owner))
            elif at not in self._servers:
                await self._listen(at, backend)
        unwanted = tuple(self._inherited.values())
        self._inherited.clear()
        for each in unwanted:
            each.shutdown(socket.SHUT_RD)
            each.close()
        if self._store is not None and (unwanted or self._servers != before):
            self._store.keep(each.fileno() for server in self._servers.values() for each in server.sockets)

    async def close(self) -> None:
        """Stop listening, and end open connections. The store keeps its sockets for the next agent."""
        self._table = {}
        self.problems.clear()
        while self._servers:
            self._servers.popitem()[1].close()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for transport in tuple(self._live):
            transport.abort()

    async def _listen(self, at: ListenAddress, backend: Backend) -> None:
        try:
            server = await self._server(at, backend.owner.namespace)
        except OSError as problem:
            message = f"{backend.name} can't be reached at {at.address}:{at.port}: {_reason(at, problem)}"
            self.problems[at] = ListenProblem(backend.owner, message, problem.errno == errno.EADDRINUSE)
            return
        self.problems.pop(at, None)
        self._servers[at] = server

    async def _server(self, at: ListenAddress, namespace: str) -> asyncio.Server:
        listening = self._inherited.pop(at, None) or _bound(at)
        try:
            return await asyncio.get_running_loop().create_server(
                lambda: ClientSide(
                    lambda client: self._connect(at, client),
                    self._tasks,
                    lambda transport: self._opened(transport, namespace),
                    self._closed,
                ),
                sock=listening,
                backlog=_BACKLOG,
            )
        except BaseException:
            listening.close()
            raise

    def _opened(self, transport: asyncio.Transport, namespace: str) -> None:
        self._live[transport] = namespace
        self._held[namespace] += 1
        if len(self._live) <= self._budget.connections:
            return
        most = max(self._held, key=lambda each: self._held[each])
        excess = next(each for each, whose in reversed(self._live.items()) if whose == most)
        self._closed(excess)
        reset(excess)

    def _closed(self, transport: asyncio.Transport) -> None:
        if (namespace := self._live.pop(transport, None)) is not None:
            self._held[namespace] -= 1
            if not self._held[namespace]:
                del self._held[namespace]

    def _beyond(self, owner: PortOwner) -> str:
        return (
            f"{owner.kind.lower()} {owner.namespace}/{owner.name}: not all of its ports are forwarded: this "
            f"node listens at no more than {self._budget.listeners} ports, which namespaces share equally; "
            f"give it fewer ports, or the node a higher limit of open files (LimitNOFILE, ulimit -n), of "
            f"which a quarter may be listeners"
        )

    async def _connect(self, at: ListenAddress, client: str) -> ForwardingSide:
        """Connect to an endpoint of an address. Raises ``OSError`` once none has answered."""
        backend = self._table.get(at)
        loop = asyncio.get_running_loop()
        for endpoint in self._balance.order(backend, client) if backend is not None else ():
            try:
                async with asyncio.timeout(CONNECTING):
                    _, side = await loop.create_connection(ForwardingSide, endpoint.address, endpoint.port)
            except (OSError, TimeoutError) as problem:
                log.info("%s: %s does not answer: %s", at, endpoint, problem or "no answer in time")
                continue
            assert backend is not None
            self._balance.settled(backend, client, endpoint)
            return side
        raise ConnectionRefusedError(f"no endpoint of {at} answers")


def _stop_listening(server: asyncio.Server) -> None:
    """Stop listening, also in the store's copy: clients of that would wait until it is closed."""
    for each in server.sockets:
        each.shutdown(socket.SHUT_RD)
    server.close()


def _bound(at: ListenAddress) -> socket.socket:
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.setblocking(False)
        listening.bind((at.address, at.port))
        listening.listen(_BACKLOG)
    except BaseException:
        listening.close()
        raise
    return listening


def _reason(at: ListenAddress, problem: OSError) -> str:
    match problem.errno:
        case errno.EADDRINUSE:
            return "another program listens there, or at that port of all addresses (0.0.0.0)"
        case errno.EACCES:
            return (
                f"port {at.port} is for root only; run the node as root, give the service a port from 1024 "
                f"on, or lower net.ipv4.ip_unprivileged_port_start"
            )
        case errno.EADDRNOTAVAIL:
            return "the address is not one of this machine"
        case _:
            return problem.strerror or str(problem)
