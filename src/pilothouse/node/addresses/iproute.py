"""The node's own routes in the kernel's routing tables, through the program ``ip``.

    ip = IpRoute()
    await ip.settle(plan)          # what is missing is added, what is ours and not wanted goes; returns what went wrong

Ours is what carries our protocol number, and nothing else is touched. Ranges that answer here are one entry each in the table
``local`` (any address of such a range can be listened on), so that nothing has to be done for a single pod, and nothing
is left behind by one. It takes CAP_NET_ADMIN; without it, the kernel's refusal is what ``settle`` returns.
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
    """``ip`` is missing, refused, or did not end."""


class _Route(msgspec.Struct):
    dst: str = ""
    gateway: str = ""


class RouteChange(NamedTuple):
    """One call of ``ip``, and the range it is about."""

    network: str
    words: tuple[str, ...]


class RouteProblem(NamedTuple):
    """A range that the tables don't have as planned, and why."""

    network: str
    message: str


_routes = msgspec.json.Decoder(list[_Route])


class IpRoute:
    """Routes of this network namespace."""

    async def settle(self, plan: RoutePlan) -> list[RouteProblem]:
        """Have the tables be as planned. Returns what could not be done."""
        try:
            routes = await self._listed("main")
            local = await self._listed("local")
        except IpFailed as problem:
            # Nothing to do, and nobody to do it: a machine without `ip` is fine on loopback.
            return [RouteProblem(each, str(problem)) for each in sorted({*plan.local, *plan.routes})]
        return await _changed(route_changes(plan, routes, local))

    async def add(self, plan: RoutePlan) -> list[RouteProblem]:
        """Have what is planned, and leave everything else as it is."""
        return await _changed(route_changes(plan, {}, {}))

    async def clear(self) -> list[RouteProblem]:
        """Take out all that is ours."""
        return await self.settle(RoutePlan())

    async def _listed(self, table: str) -> dict[str, str]:
        said = await _ip("-j", "-4", "route", "show", "table", table, "proto", PROTOCOL)
        found = _routes.decode(said or "[]")
        return {_network(route.dst): route.gateway for route in found}


def route_changes(plan: RoutePlan, routes: Mapping[str, str], local: Mapping[str, str]) -> list[RouteChange]:
    """The calls of ``ip`` that lead from what there is to what is planned."""
    made: list[RouteChange] = []
    here = ("dev", "lo", "table", "local", "proto", PROTOCOL)
    for network in sorted(local.keys() - plan.local - plan.left):
        made.append(RouteChange(network, ("route", "del", "local", network, *here)))
    for network in sorted(routes.keys() - plan.routes.keys()):
        made.append(RouteChange(network, ("route", "del", network, "proto", PROTOCOL)))
    for network in sorted(plan.local - local.keys()):
        made.append(RouteChange(network, ("route", "replace", "local", network, *here)))
    for network, via in sorted(plan.routes.items()):
        if routes.get(network) != via:
            made.append(RouteChange(network, ("route", "replace", network, "via", via, "proto", PROTOCOL)))
    return made


async def _changed(made: Iterable[RouteChange]) -> list[RouteProblem]:
    problems: list[RouteProblem] = []
    for network, words in made:
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
