"""``/metrics/objects``: the state of objects, for Prometheus; what kube-state-metrics would show.

    objects = ObjectMetrics(cache, views(resources))
    core.serve(PATH, objects.answer)

Nothing is done until somebody asks. Then each object becomes text once, and again only after it has changed: an item of
the cache is never altered, only replaced, so the same item has the same text. A collection in which nothing has happened
keeps its text as a whole. When nobody has asked for a while, all of it is forgotten.

Turning many objects into text takes longer than other requests should wait, so it is done a little at a time. The page is
therefore not of one revision; each line in it is true of an object as it was a moment ago.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping

import msgspec

from pilothouse.apiserver.cache import Cache
from pilothouse.apiserver.collection import Collection
from pilothouse.apiserver.exchange import Request, Response
from pilothouse.apiserver.exposition import CONTENT_TYPE, gauge
from pilothouse.apiserver.items import Item
from pilothouse.apiserver.kubernetes_states import views as kubernetes_views
from pilothouse.apiserver.metrics import refuse_writes
from pilothouse.apiserver.object_states import View, view_of
from pilothouse.meta.kind import Resource

PATH = "/metrics/objects"
KEPT_SECONDS = 900.0
_SLICE = 100
"""Objects that become text before other requests get their turn."""


def views(resources: Iterable[Resource]) -> Mapping[str, View]:
    """How our own kinds and some of Kubernetes' are told, by path."""
    own = {each.path: view_of(each.stored) for each in resources if not each.stored.native}
    return {**own, **kubernetes_views()}


class _Text:
    """The objects of a collection as text."""

    __slots__ = ("columns", "of_item", "stamp", "unreadable", "view")

    def __init__(self, view: View) -> None:
        self.view = view
        self.stamp = -1
        self.of_item: dict[str, tuple[Item, list[bytes]]] = {}
        self.columns: list[bytes] = [b""] * len(view.measures)
        """One text per measure."""
        self.unreadable = 0

    async def follow(self, collection: Collection) -> None:
        """Bring the text up to date."""
        stamp = collection.stamp
        if stamp == self.stamp:
            return
        of_item = self.of_item
        items = dict(collection.items)
        fresh = 0
        for key, item in items.items():
            known = of_item.get(key)
            if known is None or known[0] is not item:
                of_item[key] = (item, self._lines(item))
                fresh += 1
                if fresh % _SLICE == 0:
                    await asyncio.sleep(0)
        for key in of_item.keys() - items.keys():
            del of_item[key]
        rows = [lines for _, lines in of_item.values() if lines]
        self.columns = [b"".join(column) for column in zip(*rows, strict=True)] or [b""] * len(
            self.view.measures
        )
        self.unreadable = len(of_item) - len(rows)
        self.stamp = stamp

    def _lines(self, item: Item) -> list[bytes]:
        try:
            obj = msgspec.json.decode(item.value)
        except msgspec.DecodeError:
            return []
        return [line.encode() for line in self.view.lines(obj)]


class ObjectMetrics:
    """Answers with the state of every object that there is a view of."""

    def __init__(self, cache: Cache, views: Mapping[str, View]) -> None:
        self._cache = cache
        self._views = views
        self._texts: dict[str, _Text] = {}
        self._turn = asyncio.Lock()
        self._forgetting: asyncio.TimerHandle | None = None

    async def answer(self, request: Request) -> Response:
        refuse_writes(request)
        self._cache.check_ready()
        async with self._turn:
            for path, view in self._views.items():
                text = self._texts.get(path)
                if text is None:
                    text = self._texts[path] = _Text(view)
                await text.follow(self._cache.collection(path))
            body = self._page()
        self._forget_later()
        return Response(200, body, CONTENT_TYPE)

    def _page(self) -> bytes:
        """All that is known; the lines of a family stand together, whichever collections they come from."""
        families: dict[str, list[bytes]] = {}
        for text in self._texts.values():
            for measure, column in zip(text.view.measures, text.columns, strict=True):
                if column:
                    if measure.name not in families:
                        families[measure.name] = [measure.header.encode()]
                    families[measure.name].append(column)
        parts = [part for family in families.values() for part in family]
        unreadable = sum(text.unreadable for text in self._texts.values())
        name = "pilothouse_objects_unreadable"
        parts.append(gauge(name, "Objects whose stored form can't be read.", [("", unreadable)]).encode())
        return b"".join(parts)

    def _forget_later(self) -> None:
        if self._forgetting is not None:
            self._forgetting.cancel()
        self._forgetting = asyncio.get_running_loop().call_later(KEPT_SECONDS, self._texts.clear)
