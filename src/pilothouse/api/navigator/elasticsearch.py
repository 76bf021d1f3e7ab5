"""Values derived from the spec of an ElasticsearchCluster.

    quorum(masters(spec["nodePools"]))    # 2, for three masters

Validation and controllers use the same functions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal

from pilothouse.api.navigator.clusters import Health

LEAST_HEAP: Final = "64Mi"
"""Of a node. With 32Mi, 8.17 does not start and 7.17 takes no document; with 48Mi both work while idle."""
REPOSITORY: Final = "docker.elastic.co/elasticsearch/elasticsearch"
_HEALTHS: Final[Mapping[str, Health]] = {"red": "Red", "yellow": "Yellow", "green": "Green"}


def quorum(count: int) -> int:
    """The smallest majority: no two of them fit into ``count``."""
    return count // 2 + 1 if count else 0


def has_role(pool: Mapping[str, Any], role: Literal["data", "master", "ingest"]) -> bool:
    return role in pool.get("roles", ())


def masters(pools: Iterable[Mapping[str, Any]]) -> int:
    """The number of master-eligible nodes of all pools."""
    return sum(pool.get("replicas", 1) for pool in pools if has_role(pool, "master"))


def minimum_masters(spec: Mapping[str, Any]) -> int:
    """How many masters must see each other: the spec's value, or a majority."""
    said: int | None = spec.get("minimumMasters")
    return said if said is not None else quorum(masters(spec.get("nodePools", ())))


def health(text: str) -> Health | None:
    """Elasticsearch's health in our spelling; None if it is none."""
    return _HEALTHS.get(text.lower())


def image(spec: Mapping[str, Any]) -> str:
    """The image of the nodes. Raises ValueError if the spec has neither an image nor a version."""
    if given := spec.get("image"):
        return f"{given['repository']}:{given['tag']}"
    if version := spec.get("version"):
        return f"{REPOSITORY}:{version}"
    raise ValueError("a spec without an image needs a version to derive it from")
