"""The ``Application`` for Cassandra."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from pilothouse.api.applications.descriptor import Application
from pilothouse.api.kind_names import CassandraCluster

if TYPE_CHECKING:
    from pilothouse.api.applications.pilot_sections import PilotSections


def _restart_fields(section: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"place": [section.get(field) or "" for field in ("rack", "datacenter")]}


def _sections() -> PilotSections:
    from pilothouse.api.applications.pilot_sections import PilotSections
    from pilothouse.api.navigator import v1beta1

    return PilotSections(spec=v1beta1.PilotCassandra, status=v1beta1.PilotCassandraStatus)


CASSANDRA: Final = Application(
    name="cassandra",
    summary="a node of Cassandra",
    cluster=CassandraCluster,
    cluster_label=f"{CassandraCluster.group}/cassandra-cluster-name",
    restart_fields=_restart_fields,
    sections=_sections,
)
