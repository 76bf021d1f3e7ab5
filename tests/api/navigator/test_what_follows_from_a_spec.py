"""Quorum, masters, images and healths, as validation and controllers both see them."""

from __future__ import annotations

import pytest

from pilothouse.api.navigator import cassandra, elasticsearch
from pilothouse.api.navigator.cassandra import fill_in_racks


@pytest.mark.parametrize(("count", "majority"), list(enumerate([0, 1, 2, 2, 3, 3, 4, 4])))
def test_quorum_is_the_smallest_majority(count: int, majority: int) -> None:
    assert elasticsearch.quorum(count) == majority


def test_masters_are_counted_over_all_pools_that_have_the_role() -> None:
    master, ingest, data = ({"roles": [role], "replicas": 2} for role in ("master", "ingest", "data"))
    assert elasticsearch.masters([master]) == 2
    assert elasticsearch.masters([master, master]) == 4
    assert elasticsearch.masters([master, ingest, data]) == 2
    assert elasticsearch.masters([{"roles": ["master"]}]) == 1


def test_a_role_is_held_or_not() -> None:
    assert elasticsearch.has_role({"roles": ["data", "ingest"]}, "ingest")
    assert not elasticsearch.has_role({"roles": ["data"]}, "master")


def test_minimum_masters_is_said_or_a_majority() -> None:
    pools = [{"roles": ["master"], "replicas": 5}]
    assert elasticsearch.minimum_masters({"nodePools": pools}) == 3
    assert elasticsearch.minimum_masters({"nodePools": pools, "minimumMasters": 4}) == 4


@pytest.mark.parametrize(
    ("text", "health"),
    [("grEeN", "Green"), ("reD", "Red"), ("YELLOW", "Yellow"), ("abcdefgh", None), ("ABCdef", None)],
)
def test_health_is_read_in_any_case(text: str, health: str | None) -> None:
    assert elasticsearch.health(text) == health


def test_the_image_follows_from_the_version_unless_it_is_given() -> None:
    given = {"repository": "mine", "tag": "1"}
    default = "docker.elastic.co/elasticsearch/elasticsearch:6.1.1"
    assert elasticsearch.image({"version": "6.1.1"}) == default
    assert elasticsearch.image({"version": "6.1.1", "image": given}) == "mine:1"
    assert elasticsearch.image({"image": given}) == "mine:1"
    with pytest.raises(ValueError, match="version"):
        elasticsearch.image({})


def test_the_tag_of_cassandra_is_the_version_as_written() -> None:
    assert cassandra.image({"version": "3.11"}) == "docker.io/cassandra:3.11"
    assert cassandra.image({"version": "3", "image": {"repository": "mine", "tag": "1"}}) == "mine:1"


def test_a_pool_without_a_rack_is_a_rack_of_its_own() -> None:
    obj = {"spec": {"nodePools": [{"name": "a"}, {"name": "b", "rack": "r"}]}}
    fill_in_racks(obj)
    assert [pool["rack"] for pool in obj["spec"]["nodePools"]] == ["a", "r"]
