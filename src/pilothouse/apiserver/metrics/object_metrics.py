"""``/metrics/objects``: the state of objects for Prometheus, as kube-state-metrics shows it.

    objects = ObjectMetrics(cache, views(resources))
    core.serve(PATH, objects.answer)

An object is rendered on the first scrape and again only after it has changed: cache items are immutable. The
text is dropped when scrapes stop. Rendering yields to other requests, so a page is not of one revision.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping

import msgspec

from pilothouse.apiserver.metrics.kubernetes_states import views as kubernetes_views
from pilothouse.apiserver.metrics.object_states import KindMetrics, view_of
from pilothouse.apiserver.metrics.server_metrics import refuse_writes
from pilothouse.apiserver.server.messages import Request, Response
from pilothouse.apiserver.storage.collection import Collection
from pilothouse.apiserver.storage.items import Item
from pilothouse.apiserver.storage.watch_cache import WatchCache
from pilothouse.base.prometheus_text import CONTENT_TYPE, gauge
from pilothouse.meta.kind import Resource

PATH = "/metrics/objects"
KEPT_SECONDS = 900.0
_SLICE = 32
"""Objects that become text before other requests get their turn."""


def views(resources: Iterable[Resource]) -> Mapping[str, KindMetrics]:
    """The views of our own kinds and of some of Kubernetes', by path."""
    own = {each.path: view_of(each.stored) for each in resources if not each.stored.native}
    return {**own, **kubernetes_views()}


class _Texts:
    """The objects of a collection, each as a text per metric."""

    __slots__ = ("_of_item", "_stamp", "view")

    def __init__(self, view: KindMetrics) -> None:
        self.view = view
        self._stamp = -1
        self._of_item: dict[str, tuple[Item, tuple[bytes, ...]]] = {}

    async def follow(self, collection: Collection) -> None:
        stamp = collection.stamp
        if stamp == self._stamp:
            return
        of_item = self._of_item
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
        self._stamp = stamp

    async def columns(self) -> list[bytes]:
        """One text per metric; empty without objects."""
        columns = []
        for column in zip(*(lines for _, lines in self._of_item.values() if lines), strict=True):
            columns.append(b"".join(column))
            await asyncio.sleep(0)
        return columns

    @property
    def unreadable(self) -> int:
        return sum(not lines for _, lines in self._of_item.values())

    def _lines(self, item: Item) -> tuple[bytes, ...]:
        try:
            obj = msgspec.json.decode(item.value)
        except msgspec.DecodeError:
            return ()
        return tuple([line.encode() for line in self.view.lines(obj)])


class ObjectMetrics:
    def __init__(self, cache: WatchCache, views: Mapping[str, KindMetrics]) -> None:
        self._cache = cache
        self._views = views
        self._texts: dict[str, _Texts] = {}
        self._turn = asyncio.Lock()
        self._forgetting: asyncio.TimerHandle | None = None

    async def answer(self, request: Request) -> Response:
        refuse_writes(request)
        self._cache.check_ready()
        async with self._turn:
            body = await self._page()
        self._forget_later()
        return Response(200, body, CONTENT_TYPE)

    async def _page(self) -> bytes:
        """All metrics; the lines of a family are together, whichever collections they come from."""
        families: dict[str, list[bytes]] = {}
        unreadable = 0
        for path, view in self._views.items():
            texts = self._texts.get(path)
            if texts is None:
                texts = self._texts[path] = _Texts(view)
            await texts.follow(self._cache.collection(path))
            unreadable += texts.unreadable
            # Without objects there are no columns.
            for measure, column in zip(view.measures, await texts.columns(), strict=False):
                if column:
                    family = families.setdefault(measure.name, [measure.header.encode()])
                    family.append(column)
        unreadable_gauge = gauge(
            "pilothouse_objects_unreadable", "Objects whose stored form can't be read.", [("", unreadable)]
        )
        return b"".join(
            [*(part for family in families.values() for part in family), unreadable_gauge.encode()]
        )

    def _forget_later(self) -> None:
        if self._forgetting is not None:
            self._forgetting.cancel()
        self._forgetting = asyncio.get_running_loop().call_later(KEPT_SECONDS, self._texts.clear)
