"""The address range of a node's pods.

    taken = LoopbackBlock.claim(preferred="127.70.4.0/22", data=Path("/var/lib/pilothouse/node"))
    taken.network                                         # IPv4Network("127.70.4.0/22")
    next_free(taken.network, {"127.70.4.1"}, after="127.70.4.1")      # "127.70.4.2"

**On loopback** all of 127.0.0.0/8 answers without being configured, to every program in the same network namespace: so two
agents on one machine must not give out the same address. Each takes a block of its own out of ``LOOPBACK``, and holds it by a
lock that only agents of the same user can take (``block_locks``). Agents of different users share no lock. Each of them also holds a port at the
block's first address, which no pod has, as a mark: a block whose mark is taken is passed over as long as there is another. Anybody can take marks,
so they are advice and no more: with all of them taken, an agent has the block that it locked.
Which block is tried first follows from the agent's folder, so that the one it had is free again when it comes back.

**With a range of its own** (``--pod-cidr``) a node has that range and nobody else has.

An address is not given out again until all others have been: what remembers it has time to forget.
"""

from __future__ import annotations

import hashlib
import socket
from collections.abc import Container, Iterator
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv4Address, IPv4Network
from pathlib import Path
from typing import Final

from pilothouse.api.kubernetes.node_claims import LOOPBACK_PODS, PodRangeError, parse_pod_range
from pilothouse.node.addresses.block_locks import BlockLocks

LOOPBACK: Final = LOOPBACK_PODS
BLOCK: Final = 22
"""Bits of a block: 1022 addresses."""
MARK_PORT: Final = 64255
"""Of UDP, at a block's first address. Kernels give no such port to programs that ask for any."""
_BLOCKS: Final = 1 << (BLOCK - LOOPBACK.prefixlen)


class BadRange(Exception):
    """A range that pods can't have their addresses from."""


class NoBlock(Exception):
    """Every block of loopback addresses belongs to an agent."""


@dataclass(frozen=True)
class LoopbackBlock:
    """A block of addresses that no other agent in this network namespace has while this one lives."""

    network: IPv4Network
    locks: BlockLocks
    mark: socket.socket | None
    """Shows agents of other users that the block is taken; None where somebody else had the mark."""

    @classmethod
    def claim(cls, *, preferred: str, data: Path) -> LoopbackBlock:
        """The block that was had before, if it is free, else the first that is. Raises ``NoBlock``.

        ``data`` is the agent's folder.
        """
        locks = BlockLocks.open(data)
        unmarked: int | None = None
        try:
            for number in _in_order(preferred, str(data.absolute())):
                if not locks.lock(number):
                    continue
                if (mark := _marked(_network(number))) is not None:
                    if unmarked is not None:
                        locks.unlock(unmarked)
                    return cls(_network(number), locks, mark)
                if unmarked is None:
                    unmarked = number
                else:
                    locks.unlock(number)
            if unmarked is not None:
                return cls(_network(unmarked), locks, None)
            raise NoBlock(f"all {_BLOCKS} blocks of {LOOPBACK} are held by agents on this machine")
        except BaseException:
            locks.close()
            raise

    def close(self) -> None:
        if self.mark is not None:
            self.mark.close()
        self.locks.close()


def _in_order(preferred: str, seed: str) -> Iterator[int]:
    """The numbers of all blocks, in the order in which they are tried."""
    start = int.from_bytes(hashlib.sha256(seed.encode()).digest()[:4], "big")
    numbers = ((start + step) % _BLOCKS for step in range(_BLOCKS))
    before = (
        next((each for each in range(_BLOCKS) if str(_network(each)) == preferred), None)
        if preferred
        else None
    )
    if before is not None:
        yield before
    yield from (number for number in numbers if number != before)


def _network(number: int) -> IPv4Network:
    return IPv4Network((int(LOOPBACK.network_address) + (number << (32 - BLOCK)), BLOCK))


def _marked(network: IPv4Network) -> socket.socket | None:
    """The block's mark; None if another agent has it."""
    mark = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        mark.bind((str(network.network_address), MARK_PORT))
    except OSError:
        mark.close()
        return None
    return mark


def pod_range(text: str) -> IPv4Network:
    """The range that ``--pod-cidr`` names. Raises ``BadRange``."""
    try:
        network = parse_pod_range(text)
    except PodRangeError as problem:
        raise BadRange(str(problem)) from None
    if not isinstance(network, IPv4Network):
        raise BadRange(f"{text!r} is not a range of IPv4 addresses, such as 10.44.1.0/24")
    return network


def answers(address: str) -> bool:
    """Whether a program on this machine can listen at an address."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        try:
            probe.bind((address, 0))
        except OSError:
            return False
    return True


def is_ipv4(text: str) -> bool:
    try:
        IPv4Address(text)
    except AddressValueError:
        return False
    return True


def next_free(network: IPv4Network, taken: Container[str], *, after: str = "") -> str | None:
    """The first free address after the one assigned last; None if all are taken."""
    usable = network.num_addresses - 2  # The first is the network's, the last everyone's.
    start = 0
    if after:
        last = IPv4Address(after)
        if last in network:
            start = int(last) - int(network.network_address)
    for step in range(usable):
        address = str(network[1 + (start + step) % usable])
        if address not in taken:
            return address
    return None
