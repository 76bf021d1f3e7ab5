"""What follows from the spec of a CassandraCluster: image, rack and datacenter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pilothouse.meta.versions import Version

REPOSITORY: Final = "docker.io/cassandra"
SUPPORTED: Final = (3, 4, 5)
"""The major versions that can be run."""


def image(spec: Mapping[str, Any]) -> str:
    """The image that the nodes run.

    The tag is the version as it is written: ``3.11`` is a tag that exists, padded to ``3.11.0`` it need not.
    """
    if given := spec.get("image"):
        return f"{given['repository']}:{given['tag']}"
    return f"{REPOSITORY}:{Version.parse(spec['version'])}"


def fill_in_racks(obj: dict[str, Any]) -> None:
    """A pool that names no rack is a rack of its own name."""
    pools = (obj.get("spec") or {}).get("nodePools")
    for pool in pools if isinstance(pools, list) else ():
        if isinstance(pool, dict) and isinstance(pool.get("name"), str):
            pool.setdefault("rack", pool["name"])
