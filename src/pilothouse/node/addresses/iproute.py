"""The node's routes in the kernel's routing tables, through the program ``ip``.

    ip = IpRoute()
    await ip.settle(plan)          # adds what is missing, deletes what is not planned; returns the failures

Only routes with our protocol number are touched. A range that answers here is one entry in table ``local``,
so pods need no entries of their own. Needs CAP_NET_ADMIN.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

import msgspec

from pilothouse.aio.commands import CommandError, available, run
from pilothouse.node.addresses.route_plan import RoutePlan

PROTOCOL: Final = "80"
DEADLINE: Final = 5.0


class IpFailed(Exception):
    """``ip`` is missing, failed, or timed out."""


class _Route(msgspec.Struct):
    dst: str = ""
    gateway: str = ""


class RouteChange(NamedTuple):
    """One call of ``ip``, and the range it is about."""

    network: str
    words: tuple[str, ...]


class RouteProblem(NamedTuple):
    """A range whose route is not as planned, and why."""

    network: str
    message: str


_routes = msgspec.json.Decoder(list[_Route])


class IpRoute:
    async def settle(self, plan: RoutePlan) -> list[RouteProblem]:
        """Make the tables match the plan. Returns what failed."""
        try:
            routes = await self._listed("main")
            local = await self._listed("local")
        except IpFailed as problem:
            # An empty plan is no failure: a machine on loopback needs no `ip`.
            return [RouteProblem(each, str(problem)) for each in sorted({*plan.local, *plan.routes})]
        return await _changed(route_changes(plan, routes, local))

    async def add(self, plan: RoutePlan) -> list[RouteProblem]:
        """Add what is planned, and delete nothing."""
        return await _changed(route_changes(plan, {}, {}))

    async def clear(self) -> list[RouteProblem]:
        """Delete all routes of ours."""
        return await self.settle(RoutePlan())

    async def _listed(self, table: str) -> dict[str, str]:
        output = await _ip("-j", "-4", "route", "show", "table", table, "proto", PROTOCOL)
        return {_network(route.dst): route.gateway for route in _routes.decode(output or "[]")}


def route_changes(plan: RoutePlan, routes: Mapping[str, str], local: Mapping[str, str]) -> list[RouteChange]:
    """The calls of ``ip`` that turn the current tables into the planned ones."""
    changes: list[RouteChange] = []
    here = ("dev", "lo", "table", "local", "proto", PROTOCOL)
    for network in sorted(local.keys() - plan.local - plan.left):
        changes.append(RouteChange(network, ("route", "del", "local", network, *here)))
    for network in sorted(routes.keys() - plan.routes.keys()):
        changes.append(RouteChange(network, ("route", "del", network, "proto", PROTOCOL)))
    for network in sorted(plan.local - local.keys()):
        changes.append(RouteChange(network, ("route", "replace", "local", network, *here)))
    for network, via in sorted(plan.routes.items()):
        if routes.get(network) != via:
            changes.append(RouteChange(network, ("route", "replace", network, "via", via, "proto", PROTOCOL)))
    return changes


async def _changed(changes: Iterable[RouteChange]) -> list[RouteProblem]:
    problems: list[RouteProblem] = []
    for network, words in changes:
        try:
            await _ip(*words)
        except IpFailed as problem:
            problems.append(RouteProblem(network, str(problem)))
    return problems


def _network(text: str) -> str:
    return text if "/" in text else f"{text}/32"


async def _ip(*words: str) -> str:
    if not available("ip"):
        raise IpFailed(
            "the program `ip` is not installed (Debian: apt install iproute2), so no routes can be set"
        )
    try:
        return await run("ip", *words, patience=DEADLINE)
    except CommandError as problem:
        raise IpFailed(f"`ip {' '.join(words)}`: {problem}") from None
