"""The kernel's routing tables, as far as they are ours, by the program ``ip``.

    ip = IpRoute()
    await ip.settle(plan)          # what is missing is added, what is ours and not wanted goes; returns what went wrong

Ours is what carries our protocol number, and nothing else is touched. Ranges that answer here are one entry each in the table
``local`` (any address of such a range can be listened on), so that nothing has to be done for a single pod, and nothing
is left behind by one. It takes CAP_NET_ADMIN; without it, the kernel's refusal is what ``settle`` returns.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from pilothouse.aio.commands import CommandError, available, run
from pilothouse.node.addresses.routes import Plan

PROTOCOL: Final = "80"
DEADLINE: Final = 5.0


class IpFailed(Exception):
    """``ip`` is missing, refused, or did not end."""


class _Route(msgspec.Struct):
    dst: str = ""
    gateway: str = ""


_routes = msgspec.json.Decoder(list[_Route])


class IpRoute:
    """Routes of this network namespace."""

    async def settle(self, plan: Plan) -> list[str]:
        """Have the tables be as planned. Returns what could not be done, each as a sentence."""
        try:
            routes = await self._listed("main")
            local = await self._listed("local")
        except IpFailed as problem:
            # Nothing to do, and nobody to do it: a machine without `ip` is fine on loopback.
            return [str(problem)] if plan.routes or plan.local else []
        problems: list[str] = []
        for words in changes(plan, routes, local):
            try:
                await _ip(*words)
            except IpFailed as problem:
                problems.append(str(problem))
        return problems

    async def add(self, plan: Plan) -> list[str]:
        """Have what is planned, and leave everything else as it is."""
        problems: list[str] = []
        for words in changes(plan, {}, {}):
            try:
                await _ip(*words)
            except IpFailed as problem:
                problems.append(str(problem))
        return problems

    async def clear(self) -> list[str]:
        """Take out all that is ours."""
        return await self.settle(Plan())

    async def _listed(self, table: str) -> dict[str, str]:
        said = await _ip("-j", "-4", "route", "show", "table", table, "proto", PROTOCOL)
        found = _routes.decode(said or "[]")
        return {_network(route.dst): route.gateway for route in found}


def changes(plan: Plan, routes: Mapping[str, str], local: Mapping[str, str]) -> list[tuple[str, ...]]:
    """The calls of ``ip`` that lead from what there is to what is planned."""
    words: list[tuple[str, ...]] = []
    for network in sorted(local.keys() - plan.local):
        words.append(("route", "del", "local", network, "dev", "lo", "table", "local", "proto", PROTOCOL))
    for network in sorted(routes.keys() - plan.routes.keys()):
        words.append(("route", "del", network, "proto", PROTOCOL))
    for network in sorted(plan.local - local.keys()):
        words.append(("route", "replace", "local", network, "dev", "lo", "table", "local", "proto", PROTOCOL))
    for network, via in sorted(plan.routes.items()):
        if routes.get(network) != via:
            words.append(("route", "replace", network, "via", via, "proto", PROTOCOL))
    return words


def _network(text: str) -> str:
    return text if "/" in text else f"{text}/32"


async def _ip(*words: str) -> str:
    if not available("ip"):
        raise IpFailed(
            "the program `ip` is not there (Debian: apt install iproute2), so no routes can be set"
        )
    try:
        return await run("ip", *words, patience=DEADLINE)
    except CommandError as problem:
        raise IpFailed(f"`ip {' '.join(words)}`: {problem}") from None
