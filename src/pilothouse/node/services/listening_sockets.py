"""The listening sockets of this machine, from the kernel's tables.

    found = listening_sockets()
    users_at("127.96.3.7", 5432, found)      # {1000}: the users whose sockets accept connections there

A socket on all addresses accepts connections to every address without a listener of its own. The user is the
one that created the socket, as this process's user namespace maps it.
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
    address: str
    port: int
    user: int


def listening_sockets(tables: Iterable[Path] = _TABLES) -> list[ListeningSocket]:
    """All TCP listeners of this network namespace."""
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
    """The users whose sockets accept connections to an address."""
    return frozenset(each.user for each in sockets if each.port == port and each.address in (address, *_ANY))


def _listening(lines: Iterable[str]) -> Iterator[ListeningSocket]:
    for line in lines:
        _, local, _, state, _, _, _, user, *_ = line.split()
        if state != _LISTENING:
            # Listeners come first, and there may be very many connections.
            return
        address, _, port = local.partition(":")
        yield ListeningSocket(_address(address), int(port, 16), int(user))


def _address(text: str) -> str:
    """Parse words of four bytes in the machine's byte order: little-endian on all supported ones."""
    raw = b"".join(bytes.fromhex(text[start : start + 8])[::-1] for start in range(0, len(text), 8))
    if len(raw) == 4:
        return str(IPv4Address(raw))
    address = IPv6Address(raw)
    return str(address.ipv4_mapped or address)
