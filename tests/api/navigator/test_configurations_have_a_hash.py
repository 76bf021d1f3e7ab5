"""By its hash a Pilot says which configuration it runs with."""

from __future__ import annotations

from typing import Any

import pytest

from pilothouse.api.navigator.configurations import configuration_hash

SPEC: dict[str, Any] = {
    "decommission": False,
    "configuration": {"version": "7.17.9", "settings": {"action.auto_create_index": False}},
    "elasticsearch": {"nodePool": "data", "roles": ["data", "ingest"], "plugins": [{"name": "analysis-icu"}]},
}


def changed(part: str, **fields: Any) -> dict[str, Any]:
    return {**SPEC, part: {**SPEC[part], **fields}}


@pytest.mark.parametrize(
    "other",
    [
        changed("configuration", settings={"action.auto_create_index": True}),
        changed("configuration", settings={}),
        changed("configuration", files={"synonyms.txt": "a, b"}),
        changed("configuration", environment={"ES_JAVA_OPTS": "-Xmx1g"}),
        changed("elasticsearch", roles=["data"]),
        changed("elasticsearch", plugins=[{"name": "analysis-icu", "url": "https://example.org/icu.zip"}]),
    ],
    ids=str,
)
def test_what_a_database_has_to_be_restarted_for_is_in_it(other: dict[str, Any]) -> None:
    assert configuration_hash(other) != configuration_hash(SPEC)


@pytest.mark.parametrize(
    "other",
    [
        {**SPEC, "decommission": True},
        changed("configuration", version="8.17.0"),
        changed("configuration", files={}),
        changed("elasticsearch", nodePool="other"),
        changed("elasticsearch", redundancy={"copies": 2}),
        {**SPEC, "rebalance": {"request": "r1", "until": "2026-11-18T04:00:00Z"}},
        changed("elasticsearch", roles=["ingest", "data"]),
        changed(
            "configuration",
            settings={
                "action.auto_create_index": False,
                "cluster.initial_master_nodes": ["a", "b"],
                "discovery.zen.minimum_master_nodes": 2,
            },
        ),
    ],
    ids=str,
)
def test_what_it_need_not_be_restarted_for_is_not(other: dict[str, Any]) -> None:
    assert configuration_hash(other) == configuration_hash(SPEC)


def test_a_pilot_without_any_configuration_has_one_too() -> None:
    assert configuration_hash({}) == configuration_hash({"configuration": {"settings": {}}})


@pytest.mark.parametrize(
    ("spec", "digest"),
    [
        ({}, "4d4350ae4852b823"),
        (
            {
                "application": "elasticsearch",
                "configuration": {
                    "version": "8.17.0",
                    "settings": {
                        "cluster.name": "demo",
                        "cluster.initial_master_nodes": ["a"],
                        "node.attr.x": "1",
                    },
                    "environment": {"ES_JAVA_OPTS": "-Xms512m"},
                },
                "elasticsearch": {
                    "nodePool": "data",
                    "roles": ["master", "data"],
                    "plugins": [{"name": "b"}, {"name": "a", "url": "http://x"}],
                },
            },
            "ac24f01bbdf73ba8",
        ),
        (
            {
                "application": "cassandra",
                "configuration": {"settings": {"num_tokens": 16}},
                "cassandra": {"rack": "r1", "datacenter": "d1", "nodePool": "p"},
            },
            "d57c5ad3510e5746",
        ),
        ({"application": "redis", "configuration": {"settings": {"maxmemory": "64mb"}}}, "6cfe37f3ef85b3a0"),
    ],
    ids=["empty", "elasticsearch", "cassandra", "redis"],
)
def test_another_version_of_pilothouse_has_the_same_so_that_it_restarts_no_database(
    spec: dict[str, Any], digest: str
) -> None:
    assert configuration_hash(spec) == digest
