"""The certificates of a data folder, inspected and renewed by hand, and the rotation of its authority.

    certificates(folder, now)                                   # which exist, and until when they are valid
    renew(folder, now)                                          # renew them, whatever their age

A running server notices within a minute, and uses them for new connections. Servers that share an etcd have
their authorities there, and a step of the rotation is taken there, once for all of them.
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pilothouse.app import keys
from pilothouse.app.data_folder import DataFolder
from pilothouse.app.kubeconfig import renewed
from pilothouse.app.options import StartError
from pilothouse.app.stores import SEALED
from pilothouse.pki import authority_files
from pilothouse.pki.authority import Authority, KeyPair, UnusableError
from pilothouse.pki.authority_rotation import Authorities, StepError, encode
from pilothouse.pki.certificate_info import CertificateInfo, certificates_in
from pilothouse.pki.encryption_keys import EncryptionKeys
from pilothouse.pki.keyring import AUTHORITY, Keyring
from pilothouse.pki.private_files import write_private
from pilothouse.store.encrypted_store import EncryptedStore
from pilothouse.store.factory import EtcdOptions, StoreKind, StoreOptions, opened
from pilothouse.store.interface import Conflict, StoreError

Step = Literal["prepare", "switch", "finish"]
STEPS: tuple[Step, ...] = ("prepare", "switch", "finish")


@dataclass(frozen=True)
class CertificateFile:
    """A certificate and the file that it is in; or what is wrong with the file."""

    file: str
    certificate: CertificateInfo | None
    problem: str = ""


def certificates(folder: DataFolder, now: datetime.datetime) -> list[CertificateFile]:
    """Every certificate of the folder, sorted by expiry."""
    found: list[CertificateFile] = []
    for file in sorted(folder.pki.glob("*.crt")):
        try:
            found += [CertificateFile(file.name, each) for each in certificates_in(file.read_bytes())]
        except UnusableError as problem:
            found.append(CertificateFile(file.name, None, str(problem)))
    return sorted(found, key=lambda each: each.certificate.expires if each.certificate else now)


def renew(folder: DataFolder, now: datetime.datetime) -> list[str]:
    """Renew every certificate but the authority's; returns their file names. Raises ``StartError``."""
    keyring = Keyring(folder.pki)
    try:
        made = keyring.renew(Authority(_here(folder).current), now)
    except UnusableError as problem:
        raise StartError(f"{folder.pki}: {problem}") from None
    if "admin" in made:
        _readmit_admin(folder, keyring)
    return [f"{name}.crt" for name in made]


async def take_step(
    step: Step,
    folder: DataFolder,
    store: StoreKind,
    etcd: EtcdOptions,
    sealing: EncryptionKeys,
    now: datetime.datetime,
) -> Authorities:
    """Take a step in the rotation; returns the authorities after it. Raises ``StartError``."""
    try:
        if store == "etcd":
            return await _step_in_store(step, folder, etcd, sealing, now)
        if Keyring(folder.pki).shared:
            raise StartError(
                f"the authority of {folder.path} is shared with other servers and kept in etcd; "
                "name it with --store etcd and --etcd-servers"
            )
        there = _stepped(step, _here(folder), folder, now)
        Keyring(folder.pki).keep_authorities(there)
    except StepError as problem:
        raise StartError(f"{step} can't be done: {problem}") from None
    except (UnusableError, StoreError) as problem:
        raise StartError(str(problem)) from None
    return there


async def _step_in_store(
    step: Step, folder: DataFolder, etcd: EtcdOptions, sealing: EncryptionKeys, now: datetime.datetime
) -> Authorities:
    async with opened(StoreOptions(kind="etcd", etcd=etcd)) as kept:
        store = EncryptedStore(kept, sealing, SEALED)
        entry = await store.get(keys.AUTHORITY)
        if entry is None:
            raise StartError("there is no authority in that etcd; the first server on it creates one")
        there = _stepped(step, keys.decoded(entry), folder, now)
        try:
            await store.update(keys.AUTHORITY, encode(there), revision=entry.revision)
        except Conflict:
            raise StartError(
                "another command took a step at the same time; check the state before you try again"
            ) from None
    return there


def _stepped(step: Step, there: Authorities, folder: DataFolder, now: datetime.datetime) -> Authorities:
    match step:
        case "prepare":
            return there.prepare(Authority.make(f"{AUTHORITY}-{now:%Y%m%d}", now).credential)
        case "switch":
            return there.switch()
        case "finish":
            after = there.finish()
            _refuse_to_leave_behind(after, folder, now)
            return after


def _refuse_to_leave_behind(after: Authorities, folder: DataFolder, now: datetime.datetime) -> None:
    """At least the folder's own certificates must have been renewed before this step."""
    authority = Authority(after.current)
    for certificate, key in _pairs(folder):
        if not authority.stands_behind(KeyPair(certificate.read_bytes(), key.read_bytes()), now):
            raise StepError(
                f"{certificate.name} was not signed by the new authority; a running server renews it within "
                "a minute of the switch, one that is stopped when it starts, and `pilothouse certs renew` at "
                "once"
            )


def _pairs(folder: DataFolder) -> list[tuple[Path, Path]]:
    files = [
        folder.pki / f"{name}.crt" for name in ("apiserver", "admin", "controller-manager", "node", "peer")
    ]
    return [(file, file.with_suffix(".key")) for file in files if file.exists()]


def _here(folder: DataFolder) -> Authorities:
    there = authority_files.read(folder.pki)
    if there is None:
        raise StartError(f"there is no authority in {folder.pki}; a server creates one at its first start")
    return there


def _readmit_admin(folder: DataFolder, keyring: Keyring) -> None:
    file = folder.admin_kubeconfig
    if not file.exists():
        return
    admin = KeyPair(*(keyring.folder.joinpath(f"admin.{kind}").read_bytes() for kind in ("crt", "key")))
    write_private(file, renewed(file.read_bytes(), admin))
