"""Which addresses a node has for its pods.

    taken = LoopbackBlock.claim(preferred="127.70.4.0/22", seed="/var/lib/pilothouse/node")
    taken.network                                         # IPv4Network("127.70.4.0/22")
    next_free(taken.network, {"127.70.4.1"}, after="127.70.4.1")      # "127.70.4.2"

**On loopback** all of 127.0.0.0/8 answers without being configured, to every program in the same network namespace: so two
agents on one machine must not give out the same address. Each takes a block of its own out of ``LOOPBACK``, and holds it by an
abstract Unix socket of the block's name: such names belong to a network namespace, as addresses do, and go with the process.
Which block is tried first follows from the agent's folder, so that the one it had is free again when it comes back.

**With a range of its own** (``--pod-cidr``) a node has that range and nobody else has.

An address is not given out again until all others have been: what remembers it has time to forget.
"""

from __future__ import annotations

import hashlib
import socket
from collections.abc import Container
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv4Address, IPv4Network
from typing import Final

from pilothouse.api.kubernetes.node_claims import LOOPBACK_PODS, PodRangeError, parse_pod_range

LOOPBACK: Final = LOOPBACK_PODS
BLOCK: Final = 22
"""Bits of a block: 1022 addresses."""


class BadRange(Exception):
    """A range that pods can't have their addresses from."""


class NoBlock(Exception):
    """Every block of loopback addresses belongs to an agent."""


@dataclass(frozen=True)
class LoopbackBlock:
    """A block of addresses that no other agent in this network namespace has while this one lives."""

    network: IPv4Network
    holding: socket.socket

    @classmethod
    def claim(cls, *, preferred: str, seed: str) -> LoopbackBlock:
        """The block that was had before, if it is free, else the first that is. Raises ``NoBlock``."""
        blocks = 1 << (BLOCK - LOOPBACK.prefixlen)
        start = int.from_bytes(hashlib.sha256(seed.encode()).digest()[:4], "big")
        wanted = [preferred] if preferred else []
        for step in range(blocks):
            number = (start + step) % blocks
            first = int(LOOPBACK.network_address) + (number << (32 - BLOCK))
            wanted.append(f"{IPv4Address(first)}/{BLOCK}")
        for text in wanted:
            holding = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            try:
                holding.bind(f"\0pilothouse/pods/{text}")
            except OSError:
                holding.close()
                continue
            return cls(IPv4Network(text), holding)
        raise NoBlock(f"all {blocks} blocks of {LOOPBACK} are held by agents on this machine")

    def close(self) -> None:
        self.holding.close()


def pod_range(text: str) -> IPv4Network:
    """The range that ``--pod-cidr`` names. Raises ``BadRange``."""
    try:
        network = parse_pod_range(text)
    except PodRangeError as problem:
        raise BadRange(str(problem)) from None
    if not isinstance(network, IPv4Network):
        raise BadRange(f"{text!r} is no range of IPv4 addresses, such as 10.44.1.0/24")
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
    """The first address behind the one given last that nobody has; None if all are taken."""
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
