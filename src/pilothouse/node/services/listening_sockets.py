"""The listening sockets of this machine, from the kernel's tables.

    found = listening_sockets()
    users_at("127.96.3.7", 5432, found)          # {1000}: the users whose sockets take connections to that place

A program that listens on all addresses takes connections to every address that nobody listens at. The user is the one that made
the socket, as this process's user namespace knows it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from typing import Final, NamedTuple

_TABLES: Final = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
_LISTENING: Final = "0A"
_ANY: Final = ("0.0.0.0", "::")


class ListeningSocket(NamedTuple):
    """One that takes connections."""

    address: str
    port: int
    user: int


def listening_sockets(tables: Iterable[Path] = _TABLES) -> list[ListeningSocket]:
    """All of this network namespace, for TCP."""
    found: list[ListeningSocket] = []
    for table in tables:
        try:
            with table.open() as lines:
                next(lines, None)
                found += _listening(lines)
        except FileNotFoundError:  # A kernel without IPv6.
            continue
    return found


def users_at(address: str, port: int, sockets: Collection[ListeningSocket]) -> frozenset[int]:
    """Whose sockets take connections to a place, if nobody else does."""
    return frozenset(each.user for each in sockets if each.port == port and each.address in (address, *_ANY))


def _listening(lines: Iterable[str]) -> Iterator[ListeningSocket]:
    for line in lines:
        _, local, _, state, _, _, _, user, *_ = line.split()
        if state != _LISTENING:
            # Those that listen come first, and connections may be very many.
            return
        address, _, port = local.partition(":")
        yield ListeningSocket(_address(address), int(port, 16), int(user))


def _address(text: str) -> str:
    """From words of four bytes, each in the machine's order (which is little-endian on all that we run on)."""
    raw = b"".join(bytes.fromhex(text[start : start + 8])[::-1] for start in range(0, len(text), 8))
    if len(raw) == 4:
        return str(IPv4Address(raw))
    address = IPv6Address(raw)
    return str(address.ipv4_mapped or address)
