"""Restores a control plane from a backup: its objects into a store, its keys into a folder or that store.

The backup is verified before anything is written, and compared with the result at the end. A data folder gets
its ``format`` last: until then no server accepts it. Everything is as before except the identity
(``restored_identity``).
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from pilothouse.api.registry import resources
from pilothouse.apiserver.discovery.catalog import ROOT
from pilothouse.app import keys
from pilothouse.app.backup import SavedBackup, check
from pilothouse.app.data_folder import DataFolder
from pilothouse.app.options import StartError, explain
from pilothouse.app.restored_identity import RestoredIdentity, living_owner
from pilothouse.app.stores import SAVED
from pilothouse.pki.authority import UnusableError
from pilothouse.pki.encryption_keys import EncryptionKeys, Unopenable
from pilothouse.pki.keyring import Keyring
from pilothouse.pki.private_files import private_folder
from pilothouse.store.backup_file import BackupError, BackupReader, Saved
from pilothouse.store.factory import EtcdOptions, StoreKind, StoreOptions, opened
from pilothouse.store.interface import Store, StoreError
from pilothouse.store.restore import Lifetime, NotEmpty, differences, restore_entries


@dataclass(frozen=True)
class Restored:
    backup: SavedBackup
    keys: int
    """How many of its entries are keys of the control plane."""
    identity: RestoredIdentity


async def restore(
    file: Path,
    data: Path,
    store: StoreKind,
    etcd: EtcdOptions,
    sealing: EncryptionKeys,
    *,
    adopts_volumes: bool,
) -> Restored:
    """``sealing`` decrypts the control plane's keys for a folder; everything else stays encrypted.
    ``adopts_volumes``: it replaces the original, which must not run.

    Raises ``StartError``; then nothing is left that a server would use.
    """
    try:
        backup = await asyncio.to_thread(check, file)
        identity = await asyncio.to_thread(_identity, file, adopts_volumes)
        if store == "sqlite":
            with _new_folder(data) as folder:
                own = await _into_folder(file, backup, folder, sealing, identity)
        else:
            own = await _into_store(file, backup, etcd, identity)
    except OSError as problem:
        raise StartError(f"{problem.filename or file}: {explain(problem)}") from None
    except NotEmpty as problem:
        raise StartError(str(problem)) from None
    except (BackupError, StoreError, UnusableError) as problem:
        raise StartError(f"{file} was not restored: {problem}") from None
    return Restored(backup, own, identity)


def _identity(file: Path, adopts_volumes: bool) -> RestoredIdentity:
    """Raises ``StartError`` if it would take over the volumes of a running control plane."""
    identity = RestoredIdentity.of(_read(file), adopts_volumes=adopts_volumes, now=time.time())
    if data := living_owner(_read(file), identity):
        raise StartError(
            f"a node agent of the control plane in the backup {file} is running here, on {data}, and uses "
            "the volumes: stop it first with `pilothouse down`, or omit --adopt-volumes"
        )
    return identity


@contextlib.contextmanager
def _new_folder(data: Path) -> Iterator[DataFolder]:
    """A data folder under construction, removed if that fails."""
    existed = data.exists()
    if existed and (not data.is_dir() or any(entry.name != "lost+found" for entry in data.iterdir())):
        raise StartError(f"{data} exists and is not an empty folder; a backup is restored into a new one")
    private_folder(data)
    folder = DataFolder(data)
    try:
        yield folder
        folder.mark()
    except BaseException:
        for part in (folder.store, folder.pki):
            shutil.rmtree(part, ignore_errors=True)
        if not existed:
            shutil.rmtree(data, ignore_errors=True)
        raise


async def _into_folder(
    file: Path, backup: SavedBackup, folder: DataFolder, sealing: EncryptionKeys, identity: RestoredIdentity
) -> int:
    from pilothouse.store.sqlite_restore import fill_folder

    own = {saved.key: _opened(saved, sealing) for saved in _read(file) if _is_key(saved)}
    keys.keep(Keyring(folder.pki), own)
    objects = (saved for saved in _entries(file, identity) if not _is_key(saved))
    await asyncio.to_thread(
        fill_folder,
        folder.store,
        objects,
        base=backup.header.revision,
        lifetime=_lifetime(),
        now=time.time(),
    )
    async with opened(StoreOptions(folder=folder.store)) as store:
        await _compare(store, (saved for saved in _entries(file, identity) if not _is_key(saved)))
    return len(own)


async def _into_store(file: Path, backup: SavedBackup, etcd: EtcdOptions, identity: RestoredIdentity) -> int:
    async with opened(StoreOptions(kind="etcd", etcd=etcd)) as store:
        entries = _entries(file, identity)
        await restore_entries(store, entries, SAVED, base=backup.header.revision, lifetime=_lifetime())
        await _compare(store, _entries(file, identity))
    return sum(map(_is_key, _read(file)))


async def _compare(store: Store, entries: Iterator[Saved]) -> None:
    if wrong := await differences(store, entries, SAVED):
        named = "; ".join(wrong[:3]) + ("; …" if len(wrong) > 3 else "")
        raise StoreError(f"the store does not hold what was restored into it: {named}")


def _entries(file: Path, identity: RestoredIdentity) -> Iterator[Saved]:
    """The entries of a backup, as they are restored."""
    return map(identity.given, _read(file))


def _read(file: Path) -> Iterator[Saved]:
    with file.open("rb") as content:
        yield from BackupReader(content, str(file))


def _opened(saved: Saved, sealing: EncryptionKeys) -> bytes:
    try:
        return sealing.open(saved.key, saved.value)
    except Unopenable as problem:
        raise StoreError(f"{saved.key} can't be decrypted with --encryption-key-file: {problem}") from None


def _is_key(saved: Saved) -> bool:
    return saved.key.startswith(keys.PREFIX)


def _lifetime() -> Lifetime:
    """Events expire; their time to live starts again."""
    rules = {
        f"{ROOT}{resource.path}/": resource.stored.time_to_live
        for resource in resources()
        if resource.stored.time_to_live is not None
    }

    def lifetime(saved: Saved) -> float:
        for prefix, rule in rules.items():
            if rule is not None and saved.key.startswith(prefix):
                return rule(msgspec.json.decode(saved.value))
        return 0

    return lifetime
