"""What the controllers of a process look at: each kind followed once, however many look.

    caches = SharedCaches(informers, controllers)
    caches.know(await discover(api))           # which kinds there are, for those that care for all
    await informers.synced()
    caches.of(controller)                      # {Pod: …, StatefulSet: …}

A kind that a controller names is followed in full. For a controller that cares for every kind, the others are followed by
their metadata alone; events are left out, since nothing belongs to one and they come by the thousand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from pilothouse.api.kind_names import KNOWN, CoreEvent, Event, KindName
from pilothouse.api.objects import Object
from pilothouse.client.discovery import DiscoveredKinds
from pilothouse.client.informer import Informer
from pilothouse.client.object_cache import CacheChange
from pilothouse.client.shared_informers import SharedInformers
from pilothouse.client.watch_freshness import WatchFreshness
from pilothouse.runtime.controller import EVERY, Controller
from pilothouse.runtime.engine import Changed, EngineCache

_LEFT_OUT: Final = frozenset({(noun.group, noun.kind) for noun in (CoreEvent, Event)})


class FollowedKind:
    """An informer, as engines look at it."""

    def __init__(self, informer: Informer) -> None:
        self._informer = informer

    @property
    def revision(self) -> int:
        return self._informer.revision

    @property
    def heard(self) -> WatchFreshness:
        return self._informer.heard

    @property
    def as_of(self) -> float:
        return self._informer.as_of

    def restart(self) -> None:
        self._informer.restart()

    def get(self, namespace: str, name: str) -> Object | None:
        return self._informer.cache.get(namespace, name)

    def list(self, namespace: str = "") -> Sequence[Object]:
        return self._informer.cache.list(namespace)

    def by(self, index: str, value: str) -> Sequence[Object]:
        return self._informer.cache.by(index, value)

    def subscribe(self, changed: Changed) -> Callable[[], None]:
        def differs(difference: CacheChange) -> None:
            changed(difference.old, difference.new)

        def advanced() -> None:
            changed(None, None)

        ends = (self._informer.subscribe(differs, replay=False), self._informer.follow(advanced))

        def end() -> None:
            for each in ends:
                each()

        return end


class SharedCaches:
    """The kinds that are followed."""

    def __init__(self, informers: SharedInformers, controllers: Iterable[Controller]) -> None:
        self._informers = informers
        named = dict.fromkeys(noun for one in controllers for noun in one.nouns if noun != EVERY)
        self._nouns = KNOWN | {(noun.api_version, noun.kind): noun for noun in named}
        self._full = {noun: FollowedKind(informers.get(noun)) for noun in named}
        self._every: dict[KindName, FollowedKind] = {}

    def know(self, discovery: DiscoveredKinds) -> bool:
        """Take in what the server serves. True if every kind is followed and there is one more, or one less."""
        found: dict[tuple[str, str], KindName] = {}
        for served in discovery.served:
            noun = served.noun
            self._nouns[noun.api_version, noun.kind] = noun
            if {"list", "watch", "delete"} <= served.verbs and (noun.group, noun.kind) not in _LEFT_OUT:
                # Of several versions the first is the server's choice; one that is followed in full comes before it.
                key = (noun.group, noun.kind)
                if key not in found or noun in self._full:
                    found[key] = noun
        before = set(self._every)
        for noun in before - set(found.values()):
            del self._every[noun]
            if noun not in self._full:
                self._informers.drop(noun, partial=True)
        for noun in found.values():
            if noun not in self._every:
                full = self._full.get(noun)
                self._every[noun] = full or FollowedKind(self._informers.get(noun, partial=True))
        return set(self._every) != before

    def of(self, controller: Controller) -> Mapping[KindName, EngineCache]:
        """Those that a controller has declared to look at."""
        if EVERY in controller.nouns:
            return {**self._every, **{noun: self._full[noun] for noun in controller.nouns if noun != EVERY}}
        return {noun: self._full[noun] for noun in controller.nouns}

    def noun_of(self, api_version: str, kind: str) -> KindName | None:
        """The noun of a kind that the server has, or that everyone knows."""
        return self._nouns.get((api_version, kind))
