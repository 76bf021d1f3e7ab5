"""Which tests are begun first: those that take longest, so that the workers of a run end together.

Each worker begins with a stretch of the whole list, and when it is done it takes over from the end of another's
stretch. So every stretch is as long as the others by the table of ``SECONDS``, begins with its longest tests and
ends with its shortest. The tests of a file stay together: many of them share a server or a fleet.

Tests with real Elasticsearch nodes all are in the first stretch: no two such clusters run at the same time as long as
there is anything else to do.
"""

from __future__ import annotations

from itertools import groupby

import pytest

ELASTICSEARCH = (
    "tests/controllers/elasticsearch/test_a_real_",
    "tests/controllers/elasticsearch/test_advice_on_images_works",
    "tests/controllers/elasticsearch/test_the_example_is_a_cluster_on_up",
    "tests/end_to_end/test_a_cluster_of_the_sixth_version",
    "tests/end_to_end/test_a_full_disk_and_a_wrong_setting",
    "tests/end_to_end/test_a_secured_cluster",
    "tests/end_to_end/test_an_api_server_that_is_away",
    "tests/end_to_end/test_documents_outlive",
    "tests/end_to_end/test_kills_at_any_step",
    "tests/fleet/test_a_plan_goes_over_machines_below",
    "tests/fleet/test_elasticsearch_",
    "tests/originals/test_a_cluster_of_navigator",
    "tests/pilot/test_a_real_",
    "tests/pilot/test_plugins_are_installed_for_real",
)
ELASTICSEARCH_SECONDS = 60.0
SECONDS: dict[str, float] = {
    "tests/end_to_end/test_a_fleet_updates_pilothouse_itself": 180,
    "tests/node/test_random_faults_leave_nothing": 120,
    "tests/end_to_end/test_kills_at_any_point_of_a_plan": 90,
    "tests/durability/test_killed_servers": 60,
    "tests/house/test_a_wheel": 60,
    "tests/house/test_a_payload": 50,
    "tests/real_kubernetes/test_kubernetes_own_conformance": 50,
    "tests/end_to_end/test_postgres_volumes": 45,
    "tests/end_to_end/test_manifests_of_the_seed": 40,
    "tests/third_party/": 40,
    "tests/app/controller_manager/test_never_two": 35,
    "tests/rules/test_rules_follow_selectors": 35,
    "tests/end_to_end/test_fleets_update_by_plan": 30,
    "tests/sim/test_a_cluster_survives": 30,
    "tests/real_kubernetes/": 25,
    "tests/app/": 20,
    "tests/fleet/test_three_machines": 20,
    "tests/end_to_end/": 15,
    "tests/sim/test_a_crash_at_any_write": 10,
    "tests/node/test_an_agent_is_killed": 8,
    "tests/sim/": 6,
    "tests/fuzz/": 4,
}
"""How long each long test of these files takes, by the first that fits, roughly, on two processors that have other tests to run."""


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """After tests were deselected: the workers begin with the same number of those that are left."""
    workers = getattr(config, "workerinput", {}).get("workercount", 1)
    items[:] = ordered(items, workers)


class _Stretch:
    """What one worker begins with."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.seconds = 0.0
        self.files: list[list[pytest.Item]] = []

    def take(self, items: list[pytest.Item]) -> list[pytest.Item]:
        """Take as many as there is room for; returns the others."""
        taken, left = items[: self.room], items[self.room :]
        self.files.append(taken)
        self.room -= len(taken)
        self.seconds += _seconds(taken)
        return left


def ordered(items: list[pytest.Item], workers: int) -> list[pytest.Item]:
    """The stretches of all workers, one after another. Files that no table names come last, in their order."""
    # As the scheduler shares them out: each worker gets its part of those that are left.
    stretches = [_Stretch((len(items) + number) // workers) for number in range(workers)]
    files = [list(found) for _, found in groupby(items, key=lambda item: item.nodeid.partition("::")[0])]
    for file in (file for file in files if _has_elasticsearch(file)):
        _share(file, stretches)
    listed = [file for file in files if _seconds(file) and not _has_elasticsearch(file)]
    for file in sorted(listed, key=_seconds, reverse=True):
        _share(file, sorted(stretches, key=lambda stretch: (stretch.room < len(file), stretch.seconds)))
    for stretch in stretches:
        stretch.files.sort(
            key=lambda file: (_has_elasticsearch(file), _seconds(file) / len(file)), reverse=True
        )
    for file in (file for file in files if not _seconds(file) and not _has_elasticsearch(file)):
        _share(file, stretches)
    return [item for stretch in stretches for file in stretch.files for item in file]


def _share(file: list[pytest.Item], stretches: list[_Stretch]) -> None:
    """Into the first of these stretches; those for which it has no room, into the next."""
    left = file
    for stretch in stretches:
        if left and stretch.room:
            left = stretch.take(left)


def _has_elasticsearch(file: list[pytest.Item]) -> bool:
    return file[0].nodeid.startswith(ELASTICSEARCH)


def _seconds(file: list[pytest.Item]) -> float:
    known = {**dict.fromkeys(ELASTICSEARCH, ELASTICSEARCH_SECONDS), **SECONDS}
    each = next((value for path, value in known.items() if file[0].nodeid.startswith(path)), 0.0)
    return each * sum(1 for item in file if item.get_closest_marker("long") is not None)
