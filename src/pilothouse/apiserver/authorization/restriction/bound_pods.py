"""Which node runs which pods, and what those refer to. Follows the cache.

    pods = BoundPods(cache)
    cache.listen(pods)
    pods.needs("n1", "secrets", "t", "db-password")     # True while a pod on n1 refers to it

References are counted per node, so a query is one lookup. They never change once a pod is bound, so updates
of its status are not decoded further than the node's name.
"""

from __future__ import annotations

from collections import Counter

import msgspec

from pilothouse.api.navigator.labels import HAS_PILOT
from pilothouse.apiserver.authorization.restriction.references import Reference, audiences_of, references_of
from pilothouse.apiserver.storage import codec
from pilothouse.apiserver.storage.collection import CacheEvent, Collection
from pilothouse.apiserver.storage.watch_cache import WatchCache

PODS = "pods"
_Place = tuple[str, str]


class PodRecord(msgspec.Struct, frozen=True):
    uid: str
    node: str
    piloted: bool
    account: str = ""
    references: frozenset[Reference] = frozenset()
    audiences: frozenset[str] = frozenset()


class BoundPods:
    """Pods by their place and by their node. A listener of the cache."""

    def __init__(self, cache: WatchCache) -> None:
        self._cache = cache
        self._pods: dict[_Place, PodRecord] = {}
        self._needed: dict[str, Counter[tuple[str, str, str]]] = {}

    def find(self, namespace: str, name: str) -> PodRecord | None:
        """A pod, bound or not."""
        return self._pods.get((namespace, name))

    def runs(self, node: str, namespace: str, name: str) -> bool:
        pod = self._pods.get((namespace, name))
        return pod is not None and pod.node == node

    def needs(self, node: str, plural: str, namespace: str, name: str) -> bool:
        needed = self._needed.get(node)
        return needed is not None and (plural, namespace, name) in needed

    # How pods are followed

    def happened(self, collection: Collection, event: CacheEvent) -> None:
        if collection.path == PODS:
            self._follow_pod(event.key, event.after.value if event.after is not None else None)

    def advanced(self) -> None: ...

    def broken(self) -> None:
        self._pods, self._needed = {}, {}
        for item in self._cache.collection(PODS).items.values():
            self._follow_pod(item.key, item.value)

    def _follow_pod(self, key: str, value: bytes | None) -> None:
        place = _place(key)
        known = self._pods.get(place)
        seen = _glance.decode(value) if value is not None else None
        if known is not None and seen is not None and seen.resembles(known):
            return
        # First away with the old: whatever is wrong with the new, what it replaces must not go on counting.
        if known is not None:
            del self._pods[place]
            self._count(known, place[0], -1)
        if value is not None and seen is not None:
            pod = self._pods[place] = seen.pod(value)
            self._count(pod, place[0], 1)

    def _count(self, pod: PodRecord, namespace: str, by: int) -> None:
        if not pod.node:
            return
        needed = self._needed.setdefault(pod.node, Counter())
        for plural, name in pod.references:
            thing = (plural, namespace, name)
            needed[thing] += by
            if not needed[thing]:
                del needed[thing]
        if not needed:
            del self._needed[pod.node]


class _Metadata(msgspec.Struct):
    uid: str = ""
    labels: dict[str, str] | None = None


class _Spec(msgspec.Struct, rename="camel"):
    node_name: str = ""


class _Glance(msgspec.Struct):
    """The fields of a pod that decide whether the rest has to be decoded."""

    metadata: _Metadata
    spec: _Spec = msgspec.field(default_factory=_Spec)

    @property
    def piloted(self) -> bool:
        return HAS_PILOT in (self.metadata.labels or {})

    def resembles(self, pod: PodRecord) -> bool:
        return (self.metadata.uid, self.spec.node_name, self.piloted) == (pod.uid, pod.node, pod.piloted)

    def pod(self, value: bytes) -> PodRecord:
        if not self.spec.node_name:
            return PodRecord(self.metadata.uid, "", self.piloted)
        whole = codec.decode(value)
        account = (whole.get("spec") or {}).get("serviceAccountName") or ""
        return PodRecord(
            self.metadata.uid,
            self.spec.node_name,
            self.piloted,
            account,
            references_of(whole),
            audiences_of(whole),
        )


_glance = msgspec.json.Decoder(_Glance)


def _place(key: str) -> _Place:
    """Namespace and name of a key that ends in them."""
    rest, _, name = key.rpartition("/")
    return rest.rpartition("/")[2], name
