"""Which tests are begun first: those with real Elasticsearch nodes, each of which takes minutes.

Each worker begins with a stretch of the whole list, so that these all fall to one of them; in the long run, who is done takes over from the end of another's
stretch. So no two such clusters run at the same time as long as there is anything else to do. By their names they would come last, and be waited for.
"""

from __future__ import annotations

import pytest

FIRST = (
    "tests/end_to_end/",
    "tests/controllers/elasticsearch/test_a_real_",
    "tests/controllers/elasticsearch/test_the_example_is_a_cluster_on_up",
    "tests/fleet/test_elasticsearch_",
    "tests/pilot/test_a_real_",
    "tests/pilot/test_plugins_are_installed_for_real",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: not item.nodeid.startswith(FIRST))
