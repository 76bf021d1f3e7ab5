"""Each pod has an address of its own, in a block that no other agent of the machine has, and keeps it over agents."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

import pytest

from pilothouse.node.addresses.address_records import (
    AddressRecord,
    AddressRecords,
    AddressRecordsError,
    HostPort,
)
from pilothouse.node.addresses.pod_ranges import (
    BLOCK,
    LOOPBACK,
    BadRange,
    LoopbackBlock,
    next_free,
    pod_range,
)


def test_two_agents_on_one_machine_have_blocks_of_their_own(tmp_path: Path) -> None:
    first = LoopbackBlock.claim(preferred="", data=tmp_path)
    second = LoopbackBlock.claim(preferred="", data=tmp_path)
    try:
        assert not first.network.overlaps(second.network)
        for block in (first, second):
            assert block.network.prefixlen == BLOCK
            assert block.network.subnet_of(LOOPBACK)
    finally:
        first.close()
        second.close()


def test_an_agent_that_comes_back_has_its_block_again(tmp_path: Path) -> None:
    first = LoopbackBlock.claim(preferred="", data=tmp_path)
    other = LoopbackBlock.claim(preferred="", data=tmp_path)
    other.close()
    again = LoopbackBlock.claim(preferred=str(other.network), data=tmp_path)
    try:
        assert again.network == other.network
    finally:
        first.close()
        again.close()


def test_blocks_keep_out_of_the_range_of_services() -> None:
    assert not LOOPBACK.overlaps(IPv4Network("127.96.0.0/16"))
    assert IPv4Address("127.0.0.1") not in LOOPBACK


def test_addresses_come_in_turn_and_those_that_are_free_again_come_last() -> None:
    network = IPv4Network("10.44.1.0/29")
    given: list[str] = []
    last = ""
    for _ in range(6):
        last = next_free(network, set(given), after=last) or ""
        given.append(last)
    assert given == [f"10.44.1.{n}" for n in range(1, 7)]
    assert next_free(network, set(given), after=last) is None
    assert next_free(network, set(given) - {"10.44.1.3"}, after=last) == "10.44.1.3"
    assert next_free(network, {"10.44.1.1"}, after="10.44.1.1") == "10.44.1.2"
    assert next_free(network, set(), after="10.44.1.6") == "10.44.1.1"


def test_an_address_given_out_of_another_range_before_is_no_obstacle() -> None:
    assert next_free(IPv4Network("10.44.1.0/24"), set(), after="127.70.4.9") == "10.44.1.1"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("10.44.1.0", "16 to 30 bits"),
        ("10.44.1.7/24", "has host bits set"),
        ("ten", "is not a range of addresses"),
        ("fd00::/64", "is not a range of IPv4 addresses"),
        ("127.0.0.0/16", "not a private range"),
        ("224.0.0.0/16", "not a private range"),
        ("169.254.1.0/24", "not a private range"),
        ("203.0.113.0/24", "not a private range"),
        ("10.0.0.0/8", "16 to 30 bits"),
        ("128.0.0.0/1", "16 to 30 bits"),
        ("0.0.0.0/0", "16 to 30 bits"),
    ],
)
def test_a_range_that_pods_cant_have_is_refused_with_an_example(text: str, why: str) -> None:
    with pytest.raises(BadRange, match=why) as refused:
        pod_range(text)
    assert "10.44.1.0/24" in str(refused.value)


def test_the_ledger_is_as_it_was_for_the_next_agent(tmp_path: Path) -> None:
    path = tmp_path / "node" / "addresses.json"
    assert AddressRecords.read(path) == AddressRecords()
    ledger = AddressRecords(network="127.70.4.0/22", last="127.70.4.2")
    ledger = ledger.with_entry("u1", AddressRecord("127.70.4.1", "shop/db-0"))
    ledger = ledger.with_entry("u2", AddressRecord("127.70.4.2", "shop/db-1", (HostPort(8080, "TCP", ""),)))
    ledger.write(path)
    assert AddressRecords.read(path) == ledger
    assert ledger.taken == {"127.70.4.1", "127.70.4.2"}
    assert ledger.without("u1").without("u1").taken == {"127.70.4.2"}


def test_a_ledger_that_cant_be_read_says_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "addresses.json"
    path.write_text('{"entries": 7')
    with pytest.raises(AddressRecordsError, match=r"remove the file"):
        AddressRecords.read(path)
