"""What follows from the spec of an ElasticsearchCluster: masters, quorum, image, health.

    quorum(masters(spec["nodePools"]))    # 2, for three masters

Validation and controllers ask the same functions, so that they can't disagree.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal

from pilothouse.api.navigator.clusters import Health

LEAST_HEAP: Final = "64Mi"
"""Of a node. With 32Mi version 8.17 does not start, and 7.17 does but takes no document; with 48Mi both do, while nothing else is asked of them."""
REPOSITORY: Final = "docker.elastic.co/elasticsearch/elasticsearch"
_HEALTHS: Final[Mapping[str, Health]] = {"red": "Red", "yellow": "Yellow", "green": "Green"}


def quorum(count: int) -> int:
    """The smallest majority: no two of them fit into ``count``."""
    return count // 2 + 1 if count else 0


def has_role(pool: Mapping[str, Any], role: Literal["data", "master", "ingest"]) -> bool:
    return role in pool.get("roles", ())


def masters(pools: Iterable[Mapping[str, Any]]) -> int:
    """How many nodes may become master, over all pools."""
    return sum(pool.get("replicas", 1) for pool in pools if has_role(pool, "master"))


def minimum_masters(spec: Mapping[str, Any]) -> int:
    """How many masters have to see each other: what the spec says, or a majority."""
    said: int | None = spec.get("minimumMasters")
    return said if said is not None else quorum(masters(spec.get("nodePools", ())))


def health(text: str) -> Health | None:
    """The health that Elasticsearch reports, in our spelling; None if it is none."""
    return _HEALTHS.get(text.lower())


def image(spec: Mapping[str, Any]) -> str:
    """The image that the nodes run. Raises ValueError if the spec has neither an image nor a version."""
    if given := spec.get("image"):
        return f"{given['repository']}:{given['tag']}"
    if version := spec.get("version"):
        return f"{REPOSITORY}:{version}"
    raise ValueError("a spec without an image needs a version to derive it from")
