"""A write without an answer may have been carried out. Tried again, it would be judged by its own outcome: a swap that
succeeded would be told that somebody else was quicker, a deletion that there was nothing to delete."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.kit.shared_store import SharedStore

from pilothouse.api.registry import resources
from pilothouse.apiserver.discovery.catalog import KindCatalog
from pilothouse.apiserver.storage import codec
from pilothouse.apiserver.storage.objects import REMOVE, Change, ObjectStorage
from pilothouse.meta.errors import StatusError
from pilothouse.meta.kind import Object
from pilothouse.store.interface import Entry


class Remembering:
    """A cache that holds one entry."""

    def __init__(self, entry: Entry) -> None:
        self._entry = entry

    @property
    def revision(self) -> int:
        return self._entry.revision

    def peek(self, key: str) -> Entry | None:
        return self._entry if key == self._entry.key else None


@pytest.mark.parametrize(
    "change",
    [lambda live: {**live, "data": {"n": live["data"]["n"] + "+"}}, lambda live: REMOVE],
    ids=["update", "removal"],
)
async def test_a_write_in_doubt_is_not_tried_again(change: Callable[[Object], Object]) -> None:
    store = SharedStore()
    served = KindCatalog(resources()).find("", "v1", "configmaps")
    assert served is not None
    key = served.key("t", "a")
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "t"}}
    await store.create(key, codec.encode({**body, "data": {"n": ""}}))
    entry = await store.get(key)
    assert entry is not None
    tries: list[Object] = []

    def counted(live: Object) -> Object:
        tries.append(live)
        return change(live)

    store.silent = True
    counting: Change = counted
    with pytest.raises(StatusError) as told:
        await ObjectStorage(store, Remembering(entry)).amend(served, "t", "a", counting)

    assert (told.value.code, len(tries)) == (503, 1)
    assert await store.revision() == entry.revision + 1
