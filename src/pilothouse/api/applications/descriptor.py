"""What the rest of the program has to know of one database.

    MEMCACHED = Application(
        name="memcached",
        summary="a memcached server",
        data_folder="/var/lib/memcached",
        volatile=frozenset({"items"}),
        sections=lambda: PilotSections(status=MemcachedStatus),
    )

A package registers it as an entry point of the group ``pilothouse.applications``, beside the driver of the same name in the group
``pilothouse.drivers``. A driver without a descriptor works, too: its sections of the Pilot are kept as they are written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from pilothouse.api.kind_names import KindName

if TYPE_CHECKING:
    from pilothouse.api.applications.pilot_sections import PilotSections

Section = Mapping[str, Any]


class Application(msgspec.Struct, frozen=True, kw_only=True):
    """One database."""

    name: str
    """As ``spec.application`` of a Pilot has it. Its sections and its driver have the same name."""
    summary: str = ""
    """What ``pilothouse pilot <name>`` runs, with its article."""
    data_folder: str = ""
    """Where an instance keeps its data, unless the command says otherwise."""
    cluster: KindName | None = None
    """The kind whose objects are clusters of it."""
    cluster_label: str = ""
    """On all objects of a cluster, the cluster's name. A pilot may read what carries the label of its own cluster."""
    volatile: frozenset[str] = frozenset()
    """Fields of the section in ``status`` that change all the time: a change of these alone is written every 30 s at most."""
    known_while_running: frozenset[str] = frozenset()
    """Fields of the section in ``status`` that are removed when the database has ended."""
    live_settings: frozenset[str] = frozenset()
    """Settings that a running database is not restarted for."""
    restart_fields: Callable[[Section], Mapping[str, Any]] | None = None
    """What of the section in ``spec`` a running database is restarted for; all of it, unless this says otherwise."""
    sections: Callable[[], PilotSections] | None = None
    """Its part of the Pilot kind; open, unless this says otherwise. A function, so that only API servers load it."""

    def restarts_for(self, section: Section) -> Mapping[str, Any]:
        """What the hash of a Pilot's configuration takes from the section."""
        if self.restart_fields is not None:
            return self.restart_fields(section)
        return {f"section {self.name}": section} if section else {}
