"""The descriptor of a database.

    MEMCACHED = Application(
        name="memcached",
        summary="a memcached server",
        data_folder="/var/lib/memcached",
        volatile=frozenset({"items"}),
        sections=lambda: PilotSections(status=status_struct),
    )

A package registers it as an entry point of the group ``pilothouse.applications``, and its driver, by the same
name, in ``pilothouse.drivers``. A driver without a descriptor works too: its sections of the Pilot have no
schema.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from pilothouse.api.kind_names import KindName

if TYPE_CHECKING:
    from pilothouse.api.applications.pilot_sections import PilotSections

Section = Mapping[str, Any]


class PoolFields(msgspec.Struct, frozen=True, kw_only=True):
    """Where the spec of a cluster says what the nodes of its pools are like."""

    label: str
    """The label of a pool's StatefulSet with the name of the pool."""
    container: str
    """The container of a pod that ``resources`` is of."""
    pools: str = "nodePools"
    """The list of pools in the spec, by ``name``."""
    replicas: str = "replicas"
    resources: str = "resources"
    heap: str = ""
    """The size of the heap, which has to follow the memory if it is set; empty if there is no such field."""


class Application(msgspec.Struct, frozen=True, kw_only=True):
    """One database."""

    name: str
    """The value of ``spec.application`` in Pilots, and the name of its sections and driver."""
    summary: str = ""
    """What ``pilothouse pilot <name>`` runs, with its article."""
    data_folder: str = ""
    """The default folder of an instance's data."""
    cluster: KindName | None = None
    """The kind of its clusters."""
    cluster_label: str = ""
    """The label with the cluster's name on all objects of a cluster; its pilots may read them."""
    pool_label: str = ""
    """The label with the pool's name on the claims of a cluster's pool."""
    volume_size: str = ""
    """The field of a cluster with the size of a pool's volumes, if it can grow: ``spec.pools[].size``, where
    ``[]`` is the pool of that name."""
    volatile: frozenset[str] = frozenset()
    """Fields of the ``status`` section that change constantly: these alone are written every 30 s at most."""
    known_while_running: frozenset[str] = frozenset()
    """Fields of the ``status`` section that are removed when the database has ended."""
    live_settings: frozenset[str] = frozenset()
    """Settings whose change restarts no database."""
    pools: PoolFields | None = None
    """The fields of its clusters' pools, if a controller acts on them."""
    copies: tuple[str, ...] = ()
    """The path in a cluster's spec of how many copies it keeps of its data. Its controller reports by the
    condition ``Redundant``."""
    most_copies: Callable[[Section], int] | None = None
    """How many copies the nodes of a cluster's spec can hold."""
    rebalances: bool = False
    """Its leading pilot rebalances data on request (``spec.rebalance`` of Pilots); clusters report it in
    ``status.rebalance``."""
    restart_fields: Callable[[Section], Mapping[str, Any]] | None = None
    """The part of the ``spec`` section whose change restarts a database; by default all of it."""
    sections: Callable[[], PilotSections] | None = None
    """Its part of the Pilot kind; by default open. A function, so that only API servers load it."""

    def restarts_for(self, section: Section) -> Mapping[str, Any]:
        """The part of the section that the hash of a Pilot's configuration covers."""
        if self.restart_fields is not None:
            return self.restart_fields(section)
        return {f"section {self.name}": section} if section else {}
