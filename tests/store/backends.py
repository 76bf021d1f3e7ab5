"""What the conformance suite has to know of a backend: how to open it, and what it can't do."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from pilothouse.pki.encryption_keys import EncryptionKeys
from pilothouse.store.encrypted_store import EncryptedStore
from pilothouse.store.etcd import EtcdStore
from pilothouse.store.interface import Store
from pilothouse.store.memory import MemoryStore
from pilothouse.store.revision_offset import RevisionOffsetStore
from pilothouse.store.sqlite import SqliteStore
from pilothouse.store.timed_store import TimedStore


class Backend(Protocol):
    name: str
    largest: int
    """A value of this many bytes is taken; one of twice as many is too large."""

    async def open(self) -> Store:
        """A store. Opened again, it has what the last one has written, unless the backend forgets."""

    async def close(self) -> None: ...


class MemoryBackend:
    name = "memory"
    largest = 1 << 20

    def __init__(self) -> None:
        self._stores: list[MemoryStore] = []

    async def open(self) -> Store:
        store = MemoryStore(largest=self.largest, progress_every=0.2)
        self._stores.append(store)
        return store

    async def close(self) -> None:
        for store in self._stores:
            await store.close()


class SqliteBackend:
    name = "sqlite"
    largest = 1 << 20

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._stores: list[SqliteStore] = []

    async def open(self) -> Store:
        for store in self._stores:
            await store.close()
        store = await SqliteStore.open(self._folder, largest=1 << 20, progress_every=0.2)
        self._stores.append(store)
        return store

    async def close(self) -> None:
        for store in self._stores:
            await store.close()


class SealedBackend(SqliteBackend):
    """SQLite, with every value sealed."""

    name = "sealed"
    largest = (1 << 20) - 200
    """What sealing adds has to fit too."""

    async def open(self) -> Store:
        return EncryptedStore(await super().open(), EncryptionKeys({"a": bytes(32)}), covers=("",))


class ShiftedBackend(SqliteBackend):
    """SQLite, with its revisions moved up as after a restore."""

    name = "shifted"

    async def open(self) -> Store:
        return RevisionOffsetStore(await super().open(), by=10**12)


class TimedBackend(SqliteBackend):
    """SQLite, with its calls timed."""

    name = "timed"

    async def open(self) -> Store:
        return TimedStore(await super().open())


class EtcdBackend:
    name = "etcd"
    largest = 1 << 20

    def __init__(self, *endpoints: str, prefix: str) -> None:
        self._endpoints = endpoints
        self._prefix = prefix
        self._stores: list[EtcdStore] = []

    async def open(self) -> Store:
        store = await EtcdStore.open(self._endpoints, prefix=self._prefix, progress_every=0.2)
        self._stores.append(store)
        return store

    async def close(self) -> None:
        for store in self._stores:
            await store.close()
