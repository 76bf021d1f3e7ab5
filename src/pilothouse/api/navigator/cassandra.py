"""Values derived from the spec of a CassandraCluster: image, rack and datacenter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pilothouse.meta.versions import Version

REPOSITORY: Final = "docker.io/cassandra"
SUPPORTED: Final = (3, 4, 5)
"""The supported major versions."""


def image(spec: Mapping[str, Any]) -> str:
    """The image of the nodes, tagged with the version as written: ``3.11`` is not padded."""
    if given := spec.get("image"):
        return f"{given['repository']}:{given['tag']}"
    return f"{REPOSITORY}:{Version.parse(spec['version'])}"


def fill_in_racks(obj: dict[str, Any]) -> None:
    """A pool without a rack is a rack of its own name."""
    pools = (obj.get("spec") or {}).get("nodePools")
    for pool in pools if isinstance(pools, list) else ():
        if isinstance(pool, dict) and isinstance(pool.get("name"), str):
            pool.setdefault("rack", pool["name"])
