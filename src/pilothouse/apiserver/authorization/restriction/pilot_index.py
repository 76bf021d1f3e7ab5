"""Which Pilot belongs to which cluster, from the watch cache.

    pilots = PilotIndex(cache)
    cache.listen(pilots)
    pilots.find("t", "demo-data-0").cluster         # ClusterRecord(noun, label, "demo", uid)

The cluster is the Pilot's controlling owner, compared by uid too, if it is an application's cluster kind.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from pilothouse.api.applications.registry import application_of_cluster
from pilothouse.api.kind_names import KindName
from pilothouse.api.navigator.clusters import GROUP
from pilothouse.api.navigator.labels import leader_lease, pilot_lease
from pilothouse.apiserver.storage.collection import CacheEvent, Collection
from pilothouse.apiserver.storage.watch_cache import WatchCache

PILOTS = f"{GROUP}/pilots"


class ClusterRecord(msgspec.Struct, frozen=True):
    noun: KindName
    label: str
    """On all objects of the cluster; the value is the cluster's name."""
    name: str
    uid: str

    @property
    def selector(self) -> str:
        return f"{self.label}={self.name}"

    @property
    def leader_lease(self) -> str:
        return leader_lease(self.name)


class PilotRecord(msgspec.Struct, frozen=True):
    """The metadata of a Pilot that authorization reads."""

    uid: str
    cluster: ClusterRecord | None
    labels: Mapping[str, str]


def own_lease(pilot: str) -> str:
    """The lease that a pilot renews."""
    return pilot_lease(pilot)


class PilotIndex:
    """Pilots by namespace and name. A listener of the cache."""

    def __init__(self, cache: WatchCache) -> None:
        self._cache = cache
        self._pilots: dict[tuple[str, str], PilotRecord] = {}

    def find(self, namespace: str, name: str) -> PilotRecord | None:
        return self._pilots.get((namespace, name))

    def happened(self, collection: Collection, event: CacheEvent) -> None:
        if collection.path == PILOTS:
            self._follow(event.key, event.after.value if event.after is not None else None)

    def advanced(self) -> None: ...

    def broken(self) -> None:
        self._pilots = {}
        for item in self._cache.collection(PILOTS).items.values():
            self._follow(item.key, item.value)

    def _follow(self, key: str, value: bytes | None) -> None:
        rest, _, name = key.rpartition("/")
        place = (rest.rpartition("/")[2], name)
        self._pilots.pop(place, None)
        if value is not None:
            metadata = _decoder.decode(value).metadata
            self._pilots[place] = PilotRecord(metadata.uid, metadata.cluster(), metadata.labels or {})


class _Owner(msgspec.Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


class _Metadata(msgspec.Struct, rename="camel"):
    uid: str = ""
    labels: dict[str, str] | None = None
    owner_references: list[_Owner] | None = None

    def cluster(self) -> ClusterRecord | None:
        for owner in self.owner_references or ():
            application = application_of_cluster(owner.api_version.rpartition("/")[0], owner.kind)
            if owner.controller and application is not None and application.cluster is not None:
                return ClusterRecord(application.cluster, application.cluster_label, owner.name, owner.uid)
        return None


class _Pilot(msgspec.Struct):
    metadata: _Metadata


_decoder = msgspec.json.Decoder(_Pilot)
