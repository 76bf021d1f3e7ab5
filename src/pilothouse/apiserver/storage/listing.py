"""Which objects a list shows, at which revision, and where the next page starts.

Lists are read from the cache, and from the store only for a state that the cache no longer has: a later page
of a list whose collection has changed, or an exact past revision. The continue token pins the revision of a
paged list.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice

import msgspec

from pilothouse.apiserver.storage.collection import Collection
from pilothouse.apiserver.storage.continue_token import LATEST, ContinueToken
from pilothouse.apiserver.storage.items import Item
from pilothouse.apiserver.storage.list_options import ListOptions, RevisionMatch
from pilothouse.apiserver.storage.selection import Selection
from pilothouse.apiserver.storage.watch_cache import WatchCache
from pilothouse.meta import errors
from pilothouse.store.interface import Compacted, FutureRevision, StoreError

_PAGE = 500
_PAGE_TOO_OLD = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new "
    "list "
    "without the continue parameter, or use the continue token in this response to retrieve the remainder of "
    "the "
    "results. Continuing with the provided token results in an inconsistent list: objects that were created, "
    "modified or deleted since the first page may be missing or shown twice."
)
_TOO_OLD = "The resourceVersion for the provided list is too old."


class ListResult(msgspec.Struct, frozen=True):
    read: Callable[[], list[Item]]
    """The items. A whole selection is gathered by this call, so call it before anything is awaited."""
    revision: int
    next: ContinueToken | None = None
    remaining: int | None = None
    """How many follow after this page, where that is known."""
    whole: bool = False
    """True if this is all of the selection in the cache's present state."""
    own: int = 0
    """Bytes of values that were read from the store for this list alone."""


async def find(cache: WatchCache, selection: Selection, options: ListOptions) -> ListResult:
    """The listing for the options. Raises 410, 429, 503 or 504."""
    cache.check_ready()
    revision, token = options.revision, options.token
    if options.want is RevisionMatch.NEXT_PAGE and token is not None:
        after = selection.prefix + token.after
        if token.revision != LATEST:
            return await _next_page(cache, selection, options, token, after)
        return await _latest(cache, selection, options, after)
    if options.want is RevisionMatch.ANY:
        return _from_cache(cache, selection, options.limit)
    if options.want is RevisionMatch.LATEST:
        return await _latest(cache, selection, options, "")
    if not await cache.reached(revision):
        raise errors.future_revision(revision, cache.revision)
    if options.want is RevisionMatch.AT_LEAST:
        return _from_cache(cache, selection, options.limit)
    try:
        return await _as_of(cache, selection, revision, options.limit)
    except Compacted:
        raise errors.expired(_TOO_OLD) from None
    except FutureRevision as problem:
        raise errors.future_revision(revision, problem.current) from None


async def _latest(cache: WatchCache, selection: Selection, options: ListOptions, after: str) -> ListResult:
    if await cache.fresh():
        return _from_cache(cache, selection, options.limit, after)
    # The cache lags, or the store can't say how far it is: read the store itself.
    return await _from_store(cache, selection, 0, options.limit, after)


async def _next_page(
    cache: WatchCache, selection: Selection, options: ListOptions, token: ContinueToken, after: str
) -> ListResult:
    try:
        return await _as_of(cache, selection, token.revision, options.limit, after)
    except Compacted:
        onward = ContinueToken(LATEST, token.after)
        raise errors.expired(_PAGE_TOO_OLD, next_page=onward.encode()) from None
    except FutureRevision:
        raise errors.bad_request(
            f"invalid continue token: resource version {token.revision} has never been given out"
        ) from None


async def _as_of(
    cache: WatchCache, selection: Selection, revision: int, limit: int, after: str = ""
) -> ListResult:
    collection = cache.collection(selection.served.resource.path)
    if collection.changed <= revision <= cache.revision:
        items, more, remaining = _page(collection, selection, limit, after)
        return _listing(selection, items, revision, more, remaining)
    return await _from_store(cache, selection, revision, limit, after)


def _from_cache(cache: WatchCache, selection: Selection, limit: int, after: str = "") -> ListResult:
    collection = cache.collection(selection.served.resource.path)
    if not limit and not after:
        return ListResult(lambda: list(selection.of(collection)), cache.revision, whole=True)
    items, more, remaining = _page(collection, selection, limit, after)
    return _listing(selection, items, cache.revision, more, remaining)


def _page(
    collection: Collection, selection: Selection, limit: int, after: str
) -> tuple[list[Item], bool, int | None]:
    matching = selection.of(collection, after)
    items = list(islice(matching, limit)) if limit else list(matching)
    more = bool(limit) and next(matching, None) is not None
    if not more or selection.selective:
        return items, more, None
    return items, more, len(collection.keys(selection.prefix, after)) - len(items)


async def _from_store(
    cache: WatchCache, selection: Selection, revision: int, limit: int, after: str
) -> ListResult:
    # A state that the cache does not hold has to be gathered in memory; so only a few are at a time.
    async with cache.gathering:
        found = await _gather(cache, selection, revision, limit, after)
    return msgspec.structs.replace(found, own=sum([len(item.value) for item in found.read()]))


async def _gather(
    cache: WatchCache, selection: Selection, revision: int, limit: int, after: str
) -> ListResult:
    derive = cache.collection(selection.served.resource.path).derive
    items: list[Item] = []
    while True:
        size = max(limit, _PAGE) if selection.selective else (limit or _PAGE)
        try:
            page = await cache.store.list(selection.prefix, revision=revision, limit=size, after=after)
        except (Compacted, FutureRevision):
            raise
        except StoreError as problem:
            raise errors.unavailable(f"the store does not answer: {problem}") from None
        for index, entry in enumerate(page.entries):
            item = Item(entry.key, entry.revision, entry.value)
            if selection.selective and not selection.matches(item, derive):
                continue
            items.append(item)
            if limit and len(items) == limit:
                left = len(page.entries) - index - 1 + page.remaining
                remaining = left if left and not selection.selective else None
                return _listing(selection, items, page.revision, bool(left), remaining)
        if not page.remaining:
            return _listing(selection, items, page.revision, False, None)
        revision, after = page.revision, page.entries[-1].key


def _listing(
    selection: Selection, items: list[Item], revision: int, more: bool, remaining: int | None
) -> ListResult:
    token = ContinueToken(revision, items[-1].key[len(selection.prefix) :]) if more else None
    return ListResult(lambda: items, revision, token, remaining)
