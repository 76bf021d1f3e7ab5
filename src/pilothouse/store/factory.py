"""The table of stores and how each is opened.

    async with opened(StoreOptions(kind="sqlite", folder=Path("data/store"))) as store: ...

Backends are imported on use, as the command line reads this table at each start. To add one: write its
module, add its name to ``StoreKind``, its entry to ``BACKENDS`` and its settings to ``StoreOptions``.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

if TYPE_CHECKING:
    from pilothouse.store.interface import Store

StoreKind = Literal["sqlite", "memory", "etcd"]


@dataclass(frozen=True, kw_only=True)
class EtcdOptions:
    servers: tuple[str, ...] = ()
    """URLs of its members."""
    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None
    prefix: str = ""
    """What goes before every key."""
    user: str = ""
    password: str = ""


@dataclass(frozen=True, kw_only=True)
class StoreOptions:
    kind: StoreKind = "sqlite"
    folder: Path | None = None
    """sqlite: the folder that the store has to itself."""
    etcd: EtcdOptions = EtcdOptions()

    def check(self) -> None:
        """Raise ``ValueError`` for flags that contradict each other."""
        if self.kind == "etcd" and not self.etcd.servers:
            raise ValueError("--store etcd needs --etcd-servers")
        if self.kind != "etcd" and self.etcd != EtcdOptions():
            raise ValueError(f"--etcd-* flags go with --store etcd, not with --store {self.kind}")


@asynccontextmanager
async def opened(options: StoreOptions) -> AsyncIterator[Store]:
    """The store, closed at the end. Raises ``StoreError`` with what is wrong."""
    store = await BACKENDS[options.kind].open(options)
    try:
        yield store
    finally:
        await store.close()


async def _open_sqlite(options: StoreOptions) -> Store:
    from pilothouse.store.interface import StoreError
    from pilothouse.store.sqlite import SqliteStore

    if options.folder is None:
        raise StoreError("the sqlite store needs a folder")
    return await SqliteStore.open(options.folder)


async def _open_memory(options: StoreOptions) -> Store:
    from pilothouse.store.memory import MemoryStore

    return MemoryStore()


async def _open_etcd(options: StoreOptions) -> Store:
    from pilothouse.store.interface import StoreError

    try:
        from pilothouse.store.etcd import EtcdStore, Tls
    except ImportError as error:
        raise StoreError(f"the etcd store needs the extra `pilothouse[etcd]`: {error}") from error

    etcd = options.etcd
    if bool(etcd.cert_file) != bool(etcd.key_file):
        raise StoreError("a client certificate for etcd needs both its certificate file and its key file")
    tls = None
    if etcd.ca_file or etcd.cert_file:
        tls = Tls(ca=_read(etcd.ca_file), cert=_read(etcd.cert_file), key=_read(etcd.key_file))
    return await EtcdStore.open(
        etcd.servers, prefix=etcd.prefix, tls=tls, user=etcd.user, password=etcd.password
    )


def _read(file: Path | None) -> bytes | None:
    from pilothouse.store.interface import StoreError

    if file is None:
        return None
    try:
        return file.read_bytes()
    except OSError as error:
        raise StoreError(f"{file} can't be read: {error.strerror}") from error


class StoreBackend(NamedTuple):
    open: Callable[[StoreOptions], Awaitable[Store]]
    durable: bool
    """Whether it outlives the server's process."""


BACKENDS: Final[Mapping[StoreKind, StoreBackend]] = {
    "sqlite": StoreBackend(_open_sqlite, durable=True),
    "memory": StoreBackend(_open_memory, durable=False),
    "etcd": StoreBackend(_open_etcd, durable=True),
}
