"""The TUF metadata of a channel, as its publisher writes it.

    repository = TufRepository(channel_folder / "metadata", keys, now)
    repository.publish({"index.yaml": path, "v1.2.3/linux-amd64/k0s": other})
    repository.renew()                       # before something expires
    repository.rotate(other_keys)            # new keys for every role

Snapshots are consistent: metadata is written under its version, and only ``timestamp.json`` is replaced, last
and in one step. A reader sees the old state or the new one. Raises PublishError.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pilothouse.updates.publishing_keys import ROLES, PublishError, PublishingKeys

if TYPE_CHECKING:
    from tuf.api.metadata import Metadata, Root, Signed, Snapshot, Targets, Timestamp

LIVES: Final = {"root": 365, "targets": 180, "snapshot": 30, "timestamp": 7}
"""Days until the metadata of a role expires."""


class TufRepository:
    def __init__(self, folder: Path, keys: PublishingKeys, now: datetime) -> None:
        self._folder = folder
        self._keys = keys
        self._now = now.replace(microsecond=0)
        try:
            import tuf.api.metadata as metadata
            from tuf.api.exceptions import UnsignedMetadataError
            from tuf.api.serialization import DeserializationError
        except ImportError:
            raise PublishError("publishing needs python-tuf: pip install 'pilothouse[updates]'") from None
        self._tuf: Any = metadata
        self._unreadable = DeserializationError
        self._unsigned = UnsignedMetadataError

    @property
    def exists(self) -> bool:
        return (self._folder / "timestamp.json").exists()

    def expiries(self) -> dict[str, datetime]:
        """When the metadata of each role expires."""
        return {role: self._load(role).signed.expires for role in ROLES}

    def publish(self, targets: Mapping[str, Path]) -> None:
        """Make these files the targets; creates the repository if there is none."""
        make = self._tuf.TargetFile.from_file
        files = {name: make(name, str(path), ["sha256"]) for name, path in targets.items()}
        if not self.exists:
            self._create_root(self._keys)
            listed = self._tuf.Targets(expires=self._expiry("targets"), targets=files)
            self._write("targets", listed, self._keys)
            snapshot = self._tuf.Snapshot(expires=self._expiry("snapshot"))
            self._write("snapshot", snapshot, self._keys)
            timestamp = self._tuf.Timestamp(expires=self._expiry("timestamp"))
            self._write("timestamp", timestamp, self._keys)
            return
        self._check_keys()
        listed = self._load("targets").signed
        listed.targets = files
        self._commit(self._update("targets", listed))

    def renew(self) -> list[str]:
        """Sign the timestamp again, and whatever has lived half of its life. Returns the roles."""
        self._need()
        self._check_keys()
        renewed = []
        if self._is_due("root") and self._keys.has("root"):
            self._update("root", self._load("root").signed)
            renewed.append("root")
        targets: Targets = self._load("targets").signed
        version = targets.version
        if self._is_due("targets"):
            version = self._update("targets", targets)
            renewed.append("targets")
        self._commit(version)
        return [*renewed, "snapshot", "timestamp"]

    def rotate(self, keys: PublishingKeys) -> None:
        """Replace the keys of every role. The old root key and the new one sign the change."""
        self._need()
        root: Root = self._load("root").signed
        old = self._keys.signer("root")
        self._check(root, "root", old)
        for role in ROLES:
            for keyid in list(root.roles[role].keyids):
                root.revoke_key(keyid, role)
            root.add_key(keys.signer(role).public_key, role)
        root.version += 1
        root.expires = self._expiry("root")
        metadata = self._tuf.Metadata(root)
        metadata.sign(old)
        metadata.sign(keys.signer("root"), append=True)
        self._store("root", metadata)
        self._keys = keys
        self._commit(self._update("targets", self._load("targets").signed))

    def _create_root(self, keys: PublishingKeys) -> None:
        root: Root = self._tuf.Root(expires=self._expiry("root"), consistent_snapshot=True)
        for role in ROLES:
            root.add_key(keys.signer(role).public_key, role)
        self._write("root", root, keys)

    def _is_due(self, role: str) -> bool:
        """Whether metadata has lived half of its life, or is not signed by the keys that root names."""
        metadata, root = self._load(role), self._load("root").signed
        if metadata.signed.expires - self._now < timedelta(days=LIVES[role]) / 2:
            return True
        try:
            root.verify_delegate(role, metadata.signed_bytes, metadata.signatures)
        except self._unsigned:
            return True
        return False

    def _commit(self, targets: int) -> None:
        """A new snapshot of the targets, and the timestamp that shows it."""
        snapshot: Snapshot = self._load("snapshot").signed
        snapshot.meta["targets.json"] = self._tuf.MetaFile(targets)
        self._update("snapshot", snapshot)
        timestamp: Timestamp = self._load("timestamp").signed
        timestamp.snapshot_meta = self._tuf.MetaFile(snapshot.version)
        self._update("timestamp", timestamp)

    def _update(self, role: str, signed: Signed) -> int:
        """The next version of a role's metadata; returns its number."""
        signed.version += 1
        signed.expires = self._expiry(role)
        self._write(role, signed, self._keys)
        return signed.version

    def _write(self, role: str, signed: Signed, keys: PublishingKeys) -> None:
        metadata = self._tuf.Metadata(signed)
        metadata.sign(keys.signer(role))
        self._store(role, metadata)

    def _store(self, role: str, metadata: Metadata[Any]) -> None:
        write_file(self._path(role, metadata.signed.version), metadata.to_bytes())

    def _load(self, role: str) -> Metadata[Any]:
        path = self._path(role, 0) if role == "timestamp" else self._path(role, self._current(role))
        try:
            found: Metadata[Any] = self._tuf.Metadata.from_file(str(path))
        except (OSError, self._unreadable) as problem:
            raise PublishError(f"{path} can't be read as TUF metadata: {problem}") from None
        return found

    def _current(self, role: str) -> int:
        """The version of a role. Files of a publication that did not get to its end are not taken for it."""
        if role == "root":
            return _version_of(latest_root(self._folder))
        if role == "snapshot":
            return int(self._load("timestamp").signed.snapshot_meta.version)
        return int(self._load("snapshot").signed.meta["targets.json"].version)

    def _path(self, role: str, version: int) -> Path:
        return self._folder / ("timestamp.json" if role == "timestamp" else f"{version}.{role}.json")

    def _expiry(self, role: str) -> datetime:
        return self._now + timedelta(days=LIVES[role])

    def _need(self) -> None:
        if not self.exists:
            raise PublishError(f"{self._folder.parent} has no TUF metadata; publish to the channel first")

    def _check_keys(self) -> None:
        root: Root = self._load("root").signed
        for role in ROLES[1:]:
            self._check(root, role, self._keys.signer(role))

    def _check(self, root: Root, role: str, signer: Any) -> None:
        if signer.public_key.keyid not in root.roles[role].keyids:
            raise PublishError(
                f"{self._keys.folder / self._keys.file(role)} is not the key that root metadata "
                f"{root.version} of the channel names for {role}"
            )


def latest_root(folder: Path) -> Path:
    """The file with the latest root metadata below a folder of metadata. Raises PublishError."""
    found = sorted(folder.glob("*.root.json"), key=_version_of)
    if not found:
        raise PublishError(f"{folder} has no root metadata")
    return found[-1]


def _version_of(path: Path) -> int:
    number = path.name.split(".")[0]
    return int(number) if number.isascii() and number.isdigit() else 0


def write_file(path: Path, content: bytes) -> None:
    """Replace a public file in one step."""
    handle, temporary = tempfile.mkstemp(prefix=".new-", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fchmod(file.fileno(), 0o644)
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
