"""The ``Application`` for Elasticsearch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from pilothouse.api.applications.descriptor import Application, PoolFields
from pilothouse.api.kind_names import ElasticsearchCluster
from pilothouse.meta.versions import Version

if TYPE_CHECKING:
    from pilothouse.api.applications.pilot_sections import PilotSections

INITIAL_MASTERS: Final = "cluster.initial_master_nodes"
MINIMUM_MASTERS: Final = "discovery.zen.minimum_master_nodes"
SECURITY: Final = "xpack.security.enabled"
_HEADROOM_SINCE: Final = Version.parse("8.5.0")


def has_disk_headroom(version: str) -> bool:
    """Whether the disk watermarks of a version also require little free space; True if it is unknown."""
    return not version or Version.parse(version) >= _HEADROOM_SINCE


def _most_copies(spec: Mapping[str, Any]) -> int:
    """No node holds two copies of a shard, and one holds the primary."""
    pools = (each for each in spec.get("nodePools") or () if "data" in (each.get("roles") or ()))
    return max(0, sum(int(each.get("replicas", 1)) for each in pools) - 1)


def _restart_fields(section: Mapping[str, Any]) -> Mapping[str, Any]:
    return {
        "plugins": sorted(section.get("plugins") or (), key=lambda plugin: str(plugin.get("name"))),
        "roles": sorted(section.get("roles") or ()),
    }


def _sections() -> PilotSections:
    from pilothouse.api.applications.pilot_sections import PilotSections
    from pilothouse.api.navigator import v1beta1
    from pilothouse.api.navigator.validation.elasticsearch import check_pilot_section
    from pilothouse.api.own_kinds import path_column

    pool = path_column(
        "Pool", ".spec.elasticsearch.nodePool", "The pool of an Elasticsearch instance.", wide=True
    )
    documents = path_column(
        "Documents",
        ".status.elasticsearch.documents",
        "How many documents an Elasticsearch instance holds.",
        type="integer",
        wide=True,
    )
    return PilotSections(
        spec=v1beta1.PilotElasticsearch,
        status=v1beta1.PilotElasticsearchStatus,
        columns=(pool, documents),
        validate=check_pilot_section,
    )


ELASTICSEARCH: Final = Application(
    name="elasticsearch",
    summary="a node of Elasticsearch",
    data_folder="/usr/share/elasticsearch/data",
    cluster=ElasticsearchCluster,
    cluster_label=f"{ElasticsearchCluster.group}/elasticsearch-cluster-name",
    pool_label=f"{ElasticsearchCluster.group}/elasticsearch-node-pool-name",
    volume_size="spec.nodePools[].persistence.size",
    volatile=frozenset({"documents"}),
    known_while_running=frozenset({"documents", "shards"}),
    live_settings=frozenset({INITIAL_MASTERS, MINIMUM_MASTERS}),
    pools=PoolFields(
        label=f"{ElasticsearchCluster.group}/elasticsearch-node-pool-name",
        container="elasticsearch",
        heap="heapSize",
    ),
    copies=("redundancy", "copies"),
    most_copies=_most_copies,
    rebalances=True,
    restart_fields=_restart_fields,
    sections=_sections,
)
