"""The caches of a manager: one informer for each kind, shared by its controllers.

    caches = SharedCaches(informers, controllers)
    caches.know(await discover(api))           # the kinds that the server has, for controllers of every kind
    caches.of(controller)                      # {Pod: …, StatefulSet: …}

A kind that a controller names is cached in full; if it is optional to all who name it, the server need not
serve it. For a controller of every kind, the others are cached with
their metadata alone; events are left out, since nothing is owned by one and there are thousands.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from pilothouse.api.kind_names import KNOWN, CoreEvent, Event, KindName
from pilothouse.api.objects import Object
from pilothouse.client.discovery import DiscoveredKinds
from pilothouse.client.informer import Informer
from pilothouse.client.object_cache import CacheChange
from pilothouse.client.shared_informers import SharedInformers
from pilothouse.client.watch_freshness import EVERYTHING, WatchFreshness
from pilothouse.runtime.controller import EVERY, Controller
from pilothouse.runtime.engine import Changed, EngineCache
from pilothouse.runtime.optional_kinds import ALL_SERVED, ServedAs

_LEFT_OUT: Final = frozenset({(noun.group, noun.kind) for noun in (CoreEvent, Event)})


class FollowedKind:
    """An informer, with the interface that engines use."""

    def __init__(self, informer: Informer) -> None:
        self._informer = informer
        self.restart = informer.restart
        self.get = informer.cache.get
        self.list = informer.cache.list
        self.by = informer.cache.by

    @property
    def revision(self) -> int:
        return self._informer.revision

    @property
    def heard(self) -> WatchFreshness:
        return self._informer.heard

    @property
    def as_of(self) -> float:
        return self._informer.as_of

    def subscribe(self, changed: Changed) -> Callable[[], None]:
        def differs(difference: CacheChange) -> None:
            changed(difference.old, difference.new)

        ends = (
            self._informer.subscribe(differs, replay=False),
            self._informer.follow(lambda: changed(None, None)),
        )

        def end() -> None:
            for each in ends:
                each()

        return end


class AbsentKind:
    """A kind that the server does not serve: it has no objects."""

    revision = 0
    as_of = math.inf
    heard = EVERYTHING

    def restart(self) -> None:
        """There is nothing to list."""

    def get(self, namespace: str, name: str) -> Object | None:
        return None

    def list(self, namespace: str = "") -> Iterable[Object]:
        return ()

    def by(self, index: str, value: str) -> Iterable[Object]:
        return ()

    def subscribe(self, changed: Changed) -> Callable[[], None]:
        return lambda: None


class SharedCaches:
    """The cached kinds of one manager."""

    def __init__(
        self, informers: SharedInformers, controllers: Sequence[Controller], served_as: ServedAs = ALL_SERVED
    ) -> None:
        self._informers = informers
        named = dict.fromkeys(noun for one in controllers for noun in one.nouns if noun != EVERY)
        required = {noun for one in controllers for noun in one.nouns if noun not in one.optional}
        served = {noun: served_as.get(noun, noun) for noun in named}
        # An object that is created in the version of a controller is created in the one that is served.
        self._nouns = KNOWN | {(noun.api_version, noun.kind): each or noun for noun, each in served.items()}
        self._nouns |= {(each.api_version, each.kind): each for each in served.values() if each is not None}
        self._full: dict[KindName, EngineCache] = {
            noun: FollowedKind(informers.get(each, optional=noun not in required))
            if each is not None
            else AbsentKind()
            for noun, each in served.items()
        }
        self._every: dict[KindName, EngineCache] = {}

    def know(self, discovery: DiscoveredKinds) -> bool:
        """Take over the kinds that the server serves. True if the set of cached kinds has changed."""
        found: dict[tuple[str, str], KindName] = {}
        for served in discovery.served:
            noun = served.noun
            self._nouns[noun.api_version, noun.kind] = noun
            if {"list", "watch", "delete"} <= served.verbs and (noun.group, noun.kind) not in _LEFT_OUT:
                # The server lists its preferred version first; a version that is cached in full wins.
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
        """The caches of the kinds that a controller declares."""
        if EVERY in controller.nouns:
            return {**self._every, **{noun: self._full[noun] for noun in controller.nouns if noun != EVERY}}
        return {noun: self._full[noun] for noun in controller.nouns}

    def noun_of(self, api_version: str, kind: str) -> KindName | None:
        """The noun of a kind that the server serves or that is built in."""
        return self._nouns.get((api_version, kind))
