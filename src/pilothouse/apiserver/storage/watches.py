"""Opens a watch.

    streaming = await watching.open(selection, options, form, include)
    await streaming.run(sink)

After a revision it sends each later change; a future revision is waited for. Without one it first sends the
current objects as ADDED, in key order, of one moment. Errors are raised before the stream starts.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

from pilothouse.apiserver.server.messages import StreamingResponse, StreamSink
from pilothouse.apiserver.server.negotiation import AnswerForm
from pilothouse.apiserver.storage.fanout import WatchFanout
from pilothouse.apiserver.storage.list_options import WatchOptions
from pilothouse.apiserver.storage.open_watch import OpenWatch, WatcherGroup
from pilothouse.apiserver.storage.selection import Selection
from pilothouse.apiserver.storage.watch_cache import WatchCache
from pilothouse.apiserver.storage.watch_events import Lines
from pilothouse.base.clock import Clock
from pilothouse.meta import errors

SHORTEST, LONGEST = 1800.0, 3600.0
"""Default seconds of a watch, spread so that clients don't reconnect all at once; also the maximum, since
most watches are authorized only when they begin."""


class WatchOpener:
    def __init__(self, cache: WatchCache, fanout: WatchFanout, clock: Clock, rng: random.Random) -> None:
        self._cache = cache
        self._fanout = fanout
        self._clock = clock
        self._rng = rng

    async def open(
        self,
        selection: Selection,
        options: WatchOptions,
        form: AnswerForm,
        include: str,
        allowed: Callable[[], bool] | None = None,
    ) -> StreamingResponse:
        """A stream of changes, which ends when it is not ``allowed`` any more. Raises 429 while the cache is
        not filled or the server goes down, 504 for a state that the cache does not reach in time."""
        self._cache.check_ready()
        self._fanout.check_open()
        await self._settle(options)

        begun = asyncio.get_running_loop().create_future() if options.initial else None

        async def run(sink: StreamSink) -> None:
            # Nothing is awaited between making the group and joining it, so neither an event nor the group
            # can be lost.
            group = self._group(selection, form, include)
            watcher = self._watcher(group, sink, options)
            watcher.begun = begun
            watcher.allowed = allowed
            await self._fanout.serve(watcher)

        return StreamingResponse(run, begun=begun)

    def _duration(self, options: WatchOptions) -> float:
        return min(float(options.timeout), LONGEST) or self._rng.uniform(SHORTEST, LONGEST)

    async def _settle(self, options: WatchOptions) -> None:
        """Wait until the cache is as current as the initial state must be."""
        if options.revision is None:
            if not await self._cache.fresh():
                raise errors.timeout("the watch cache is behind the store", retry_after=1)
        elif options.initial and not await self._cache.reached(options.revision):
            raise errors.future_revision(options.revision, self._cache.revision)

    def _group(self, selection: Selection, form: AnswerForm, include: str) -> WatcherGroup:
        identity = (selection.identity, form.transform, include if form.transform else "")
        collection = self._cache.collection(selection.served.resource.path)
        lines = Lines(selection, collection, transform=form.transform, include=include, now=self._clock.now)
        return self._fanout.group(identity, collection, lines)

    def _watcher(self, group: WatcherGroup, sink: StreamSink, options: WatchOptions) -> OpenWatch:
        opened = asyncio.get_running_loop().time()
        collection = group.collection
        from_now = options.initial or not options.revision
        position = self._cache.revision if from_now else options.revision or 0
        watcher = OpenWatch(
            group,
            sink,
            position=position,
            bookmarks=options.bookmarks,
            opened=opened,
            deadline=opened + self._duration(options),
        )
        if options.initial:
            watcher.backlog = iter(list(group.lines.selection.of(collection)))
            watcher.announce = options.announce
        collection.history.forget_old(self._clock.monotonic())
        return watcher
