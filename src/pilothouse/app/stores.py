"""Composes the store of a server, its keys, and the maintenance pages about both."""

from __future__ import annotations

import datetime
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from pilothouse.apiserver.discovery.catalog import ROOT
from pilothouse.apiserver.maintenance import Maintenance
from pilothouse.apiserver.registry.address_allocation import KEY as ADDRESS_BOOK
from pilothouse.apiserver.request_handler import RequestHandler
from pilothouse.apiserver.server_instances import PREFIX as INSTANCES
from pilothouse.app.data_folder import DataFolder
from pilothouse.app.keys import PREFIX, GivenKeys, KeyStore
from pilothouse.app.options import ApiServerOptions, StartError, read_file
from pilothouse.base.clock import Clock
from pilothouse.pki.encryption_keys import EncryptionKeys, KeyFileError
from pilothouse.pki.keyring import Keyring
from pilothouse.store.encrypted_store import SECRETS, EncryptedStore
from pilothouse.store.factory import StoreOptions, opened
from pilothouse.store.restore import MARK, continued

OWN = "/pilothouse/"
"""The prefix of keys that the API does not serve."""
SAVED = (OWN, ROOT)
NOT_SAVED = (INSTANCES, MARK, ADDRESS_BOOK)
"""A backup has ``SAVED`` without these, which are about this store and its servers."""
SEALED = (*SECRETS, PREFIX)
"""Encrypted, if there are keys for that: secrets, and the control plane's own keys."""

log = logging.getLogger(__name__)


@asynccontextmanager
async def opened_store(options: ApiServerOptions, folder: DataFolder) -> AsyncIterator[EncryptedStore]:
    """The store of a server, with secrets encrypted."""
    keys = sealing_keys(options.encryption_key_file)
    async with opened(StoreOptions(kind=options.store, folder=folder.store, etcd=options.etcd)) as store:
        yield EncryptedStore(await continued(store), keys, SEALED)


def sealing_keys(file: Path | None) -> EncryptionKeys:
    """The keys that secrets are encrypted with; none without a file."""
    if file is None:
        return EncryptionKeys()
    try:
        return EncryptionKeys.read(read_file(file), f"--encryption-key-file {file}")
    except KeyFileError as problem:
        raise StartError(str(problem)) from None


def key_store(options: ApiServerOptions, keyring: Keyring, store: EncryptedStore) -> KeyStore:
    """The control plane's keys, shared by its instances if there may be several."""
    given = GivenKeys(
        signing=options.signing_key_file,
        certificate=options.cluster_signing_cert_file,
        key=options.cluster_signing_key_file,
    )
    return KeyStore(keyring, given, shared=store if options.store == "etcd" else None)


def serve_maintenance(core: RequestHandler, store: EncryptedStore, keys: KeyStore, clock: Clock) -> None:
    maintenance = Maintenance(
        store,
        clock,
        prefixes=SAVED,
        without=NOT_SAVED,
        besides=lambda: keys.saved(datetime.datetime.fromtimestamp(clock.now(), datetime.UTC)),
    )
    for path, handler in maintenance.paths.items():
        core.serve(path, handler)


async def warn_of_missing_keys(store: EncryptedStore) -> None:
    """Log an error for each key that is needed and missing."""
    census = await store.census()
    for name in census.missing:
        log.error(
            "%d values are sealed with the key %r, which --encryption-key-file does not give: "
            "they can't be read",
            census.sealed[name],
            name,
        )
