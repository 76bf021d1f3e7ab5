from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from pilothouse.api.navigator import clusters

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize(
    "field", [field.encode_name for field in msgspec.structs.fields(clusters.PersistenceConfig)]
)
def test_the_page_about_elasticsearch_names_every_field_of_a_pools_volumes(field: str) -> None:
    page = (DOCS / "elasticsearch.md").read_text()
    assert re.search(rf"`persistence\.{field}`", page)
