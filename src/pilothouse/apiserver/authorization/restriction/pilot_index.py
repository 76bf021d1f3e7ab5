"""Which Pilot belongs to which cluster. Follows the cache.

    pilots = PilotIndex(cache)
    cache.listen(pilots)
    pilots.find("t", "es-demo-data-0").cluster      # ClusterRecord("ElasticsearchCluster", "demo", uid)

A Pilot's cluster is its controlling owner, if that is one of the kinds of cluster there are; uid and all, so that a cluster
of the same name that comes later is another one.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from pilothouse.api.navigator.clusters import GROUP
from pilothouse.api.navigator.labels import CLUSTER_NAME, leader_lease, pilot_lease
from pilothouse.apiserver.storage.collection import CacheEvent, Collection
from pilothouse.apiserver.storage.watch_cache import WatchCache

PILOTS = f"{GROUP}/pilots"
_PLURALS = {kind: f"{kind.lower()}s" for kind in CLUSTER_NAME}


class ClusterRecord(msgspec.Struct, frozen=True):
    """A database cluster."""

    kind: str
    name: str
    uid: str

    @property
    def plural(self) -> str:
        return _PLURALS[self.kind]

    @property
    def label(self) -> str:
        """The label by which what is of the cluster is known; its value is the cluster's name."""
        return CLUSTER_NAME[self.kind]

    @property
    def selector(self) -> str:
        """What a list of its objects is confined with."""
        return f"{self.label}={self.name}"

    @property
    def leader_lease(self) -> str:
        return leader_lease(self.name)


class PilotRecord(msgspec.Struct, frozen=True):
    """What matters of a Pilot."""

    uid: str
    cluster: ClusterRecord | None
    labels: Mapping[str, str]


def own_lease(pilot: str) -> str:
    """The lease in which a pilot shows that it is alive."""
    return pilot_lease(pilot)


class PilotIndex:
    """PilotIndex by their place. A listener of the cache."""

    def __init__(self, cache: WatchCache) -> None:
        self._cache = cache
        self._pilots: dict[tuple[str, str], PilotRecord] = {}

    def find(self, namespace: str, name: str) -> PilotRecord | None:
        """A Pilot, whoever owns it."""
        return self._pilots.get((namespace, name))

    def happened(self, collection: Collection, event: CacheEvent) -> None:
        if collection.path == PILOTS:
            self._follow(event.key, event.after.value if event.after is not None else None)

    def advanced(self) -> None:
        """Nothing waits for the end of a batch: no decision is made within one."""

    def broken(self) -> None:
        """Read everything anew after the cache was listed anew."""
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
            if owner.controller and owner.kind in CLUSTER_NAME and owner.api_version.startswith(f"{GROUP}/"):
                return ClusterRecord(owner.kind, owner.name, owner.uid)
        return None


class _Pilot(msgspec.Struct):
    metadata: _Metadata


_decoder = msgspec.json.Decoder(_Pilot)
