"""Opening a store by the options of a command line or a test.

    async with opened(StoreOptions(kind="sqlite", folder=Path("data/store"))) as store: ...

A backend's module, and with it the library it needs, is imported only when it is asked for.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal

import msgspec

from pilothouse.store.interface import Store, StoreError


class StoreOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Which store, and where."""

    kind: Literal["memory", "sqlite", "etcd"] = "sqlite"
    folder: Path | None = None
    """sqlite: the folder that the store has to itself."""
    restored: bool = False
    """sqlite: the files were brought back from an earlier time; go on far above the revisions clients know."""
    endpoints: tuple[str, ...] = ()
    """etcd: URLs of its members."""
    prefix: str = ""
    """etcd: what goes before every key."""
    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None
    user: str = ""
    password: str = ""
    timeout: float = 10.0
    """etcd: seconds that a call may take."""
    progress_every: float = 5.0
    """Seconds between the progress marks of a watch."""


async def open_store(options: StoreOptions) -> Store:
    """Open the store. Raises ``StoreError`` with what is wrong."""
    if options.kind == "memory":
        from pilothouse.store.memory import MemoryStore

        return MemoryStore(progress_every=options.progress_every)
    if options.kind == "sqlite":
        from pilothouse.store.sqlite import SqliteStore

        if options.folder is None:
            raise StoreError("the sqlite store needs a folder")
        return await SqliteStore.open(
            options.folder, restored=options.restored, progress_every=options.progress_every
        )
    return await _open_etcd(options)


@asynccontextmanager
async def opened(options: StoreOptions) -> AsyncIterator[Store]:
    """The store, closed at the end."""
    store = await open_store(options)
    try:
        yield store
    finally:
        await store.close()


async def _open_etcd(options: StoreOptions) -> Store:
    try:
        from pilothouse.store.etcd import EtcdStore, Tls
    except ImportError as error:
        raise StoreError(f"the etcd store needs the extra `pilothouse[etcd]`: {error}") from error

    if bool(options.cert_file) != bool(options.key_file):
        raise StoreError("a client certificate for etcd needs both its certificate file and its key file")
    tls = None
    if options.ca_file or options.cert_file:
        tls = Tls(ca=_read(options.ca_file), cert=_read(options.cert_file), key=_read(options.key_file))
    return await EtcdStore.open(
        options.endpoints,
        prefix=options.prefix,
        tls=tls,
        user=options.user,
        password=options.password,
        timeout=options.timeout,
        progress_every=options.progress_every,
    )


def _read(file: Path | None) -> bytes | None:
    if file is None:
        return None
    try:
        return file.read_bytes()
    except OSError as error:
        raise StoreError(f"{file} can't be read: {error.strerror}") from error
