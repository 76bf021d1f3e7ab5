"""The owner of a volume, its control plane: recorded in the volume's directory and checked before every use.

    owners = VolumeOwners("n1", Path("/var/lib/pilothouse/node"))
    owners.acquire(folder, identity, pod.uid)   # ours from here on, and locked; else VolumeOwned
    owners.release_user(pod.uid)                # a lock goes with its last user

    TIER/pvc-1234/owner.json                    beside what pods see of a volume, and not in it

When a backup is restored beside the original, or a data directory copied, two control planes know the same
volumes by the same paths. Two things protect the data:

* ``owner.json`` has the uid of the control plane. Another one refuses the volume, unless an administrator
  allows it to take over (``ClusterIdentity.adopts``); then the uid is replaced.
* An agent locks the directory of each volume that it uses. While an agent has the lock, or one of its
  containers has the volume mounted, no other agent gets it, whatever its uid.

The owner of a ``local`` directory of the machine, which its pods see as a whole, is an extended attribute
where the filesystem has those. It is not locked, since its pods could lock it too. A volume without an owner
belongs to the first agent that uses it.
"""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path
from threading import Lock
from typing import Final

import msgspec

from pilothouse.api.local_volumes import ADOPTS_VOLUMES_OF
from pilothouse.node.files.directory_handles import (
    DIRECTORY,
    closing_handle,
    open_directory,
    open_regular_beneath,
)
from pilothouse.node.volumes.cluster_identity import NAMESPACE, ClusterIdentity
from pilothouse.node.volumes.mount_holders import mount_users, pods_folder_of
from pilothouse.node.volumes.volume_backend import VolumeBackendError

AGENT_LOCK: Final = "agent.lock"
_WITHOUT_ATTRIBUTES: Final = frozenset(
    {errno.ENODATA, errno.ENOTSUP, errno.EPERM, errno.EACCES, errno.EROFS, errno.ENOSPC, errno.EDQUOT}
)
"""Errors of filesystems without attributes, or none for us; then only the check for users remains."""
_OWNER: Final = "owner.json"
_DRAFT: Final = "owner.json.draft"


class VolumeOwned(VolumeBackendError):
    """The volume is another control plane's."""


class VolumeOwner(msgspec.Struct, frozen=True):
    cluster: str
    """The uid of the control plane."""
    node: str
    data: str
    """The data directory of the agent that used it last."""


class _Held(msgspec.Struct):
    """A directory that we have locked."""

    handle: int
    users: set[str]


class VolumeOwners:
    """The owners of one agent's volumes. Thread-safe."""

    def __init__(self, node: str, data: Path) -> None:
        self._node = node
        self._data = data.absolute()
        self._held: dict[Path, _Held] = {}
        self._lock = Lock()
        self._is_closed = False

    def acquire(self, folder: Path, identity: ClusterIdentity, user: str) -> None:
        """Take a volume, if it exists, until its last user releases it. Raises VolumeBackendError."""
        with self._lock:
            if self._is_closed:
                raise VolumeBackendError("the node agent is shutting down")
            if (held := self._held.get(folder)) is not None:
                self._own(held.handle, folder, identity)
                held.users.add(user)
                return
            try:
                handle = os.open(folder, DIRECTORY)
            except FileNotFoundError:
                return
            try:
                self._own(handle, folder, identity)
            except BaseException:
                os.close(handle)
                raise
            self._held[folder] = _Held(handle, {user})

    def release(self, folder: Path, user: str) -> None:
        with self._lock:
            if (held := self._held.get(folder)) is None:
                return
            held.users.discard(user)
            if not held.users:
                _unlock(self._held.pop(folder))

    def users(self, folder: Path) -> frozenset[str]:
        """Those who have acquired a volume."""
        with self._lock:
            held = self._held.get(folder)
            return frozenset(held.users) if held is not None else frozenset()

    def release_user(self, user: str) -> None:
        for folder in [folder for folder, held in self._held.items() if user in held.users]:
            self.release(folder, user)

    def close(self) -> None:
        """Release all locks; nothing can be acquired afterwards."""
        with self._lock:
            self._is_closed = True
            while self._held:
                _unlock(self._held.popitem()[1])

    def acquire_path(self, path: Path, identity: ClusterIdentity) -> None:
        """Take a directory of the machine. Raises VolumeOwned, OSError."""
        if not path.is_dir():
            return
        with self._lock, open_directory(path, follow=True) as handle:
            owner = _read_attribute(handle, path)
            if owner is not None and not self._is_mine(owner):
                # With our own data directory, the earlier control plane is gone.
                _check_owner(path, owner, identity)
            ours = VolumeOwner(identity.uid, self._node, str(self._data))
            if owner != ours:
                self._check_alone(path, owner, identity, closed=False)
                _write_attribute(handle, ours)

    def is_ours(self, folder: Path, identity: ClusterIdentity) -> bool:
        """Whether the recorded owner is this agent, or there is none. Raises OSError."""
        try:
            with open_directory(folder) as handle:
                owner = _read(handle, folder)
        except FileNotFoundError:
            return True
        return owner is None or (owner.cluster == identity.uid and self._is_mine(owner))

    def _own(self, handle: int, folder: Path, identity: ClusterIdentity) -> None:
        # Checked before the lock: another control plane must not find its own volume locked by us.
        _check_owner(folder, _read(handle, folder), identity)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            whose = _whose(_read(handle, folder))
            where = f"{folder} is in use by another node agent on this machine{whose}"
            raise VolumeOwned(f"{where}: stop that one first (pilothouse down)") from None
        owner = _read(handle, folder)
        _check_owner(folder, owner, identity)
        ours = VolumeOwner(identity.uid, self._node, str(self._data))
        if owner != ours:
            self._check_alone(folder, owner, identity, closed=True)
            _write(handle, ours)

    def _check_alone(
        self, folder: Path, owner: VolumeOwner | None, identity: ClusterIdentity, *, closed: bool
    ) -> None:
        """Check that no other agent uses it, and that none has the same identity. ``closed``: only agents
        have access, so that any user is an agent's."""
        if owner is not None and self._is_mine(owner):
            return
        if owner is not None and agent_lives(Path(owner.data)):
            whose = f"{folder} belongs to the node agent whose data is in {owner.data}"
            raise VolumeOwned(f"{whose}, which is running: stop it first (pilothouse down)")
        if owner is not None and owner.cluster == identity.uid and os.path.isdir(f"{owner.data}/pods"):
            raise VolumeOwned(
                f"{folder} belongs to the node whose data is in {owner.data}, and this one, with the same "
                f"control plane's uid, has its data in {self._data}: one is a copy of the other. Remove the "
                f"one that should not continue"
            )
        for pid in mount_users(folder):
            pods = pods_folder_of(pid)
            if pods != str(self._data / "pods") and (pods or closed):
                user = f"process {pid}, in a container of another node agent{_whose(owner)}"
                raise VolumeOwned(f"{folder} is in use by {user}: stop its pods first (pilothouse down)")

    def _is_mine(self, owner: VolumeOwner) -> bool:
        """Whether the data directory is ours, by any path."""
        if owner.data == str(self._data):
            return True
        try:
            return os.path.samefile(owner.data, self._data)
        except OSError:
            return False


def read_owner(folder: Path) -> VolumeOwner | None:
    """The owner of a volume; None if there is none, or it can't be read."""
    try:
        with open_directory(folder) as handle:
            return _read(handle, folder)
    except (OSError, VolumeOwned):
        return None


def agent_lives(data: Path) -> bool:
    """Whether a node agent has locked this data directory."""
    try:
        handle = os.open(data / AGENT_LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    with closing_handle(handle):
        try:
            # Shared, so that concurrent checks don't see each other.
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def _check_owner(folder: Path, owner: VolumeOwner | None, identity: ClusterIdentity) -> None:
    if owner is None or identity.may_take(owner.cluster):
        return
    raise VolumeOwned(
        f"{folder} belongs to another control plane: its {NAMESPACE} has the uid {owner.cluster}, and its "
        f"node's data is in {owner.data}; this one has the uid {identity.uid}. If the other is gone for "
        f"good, take its volumes over: kubectl annotate namespace {NAMESPACE} "
        f"{ADOPTS_VOLUMES_OF}={owner.cluster}"
    )


def _unlock(held: _Held) -> None:
    # Closing isn't enough: a process forked a moment ago has the handle too, until it executes its program.
    fcntl.flock(held.handle, fcntl.LOCK_UN)
    os.close(held.handle)


def _whose(owner: VolumeOwner | None) -> str:
    return f" ({owner.data})" if owner is not None else ""


def owned_folder(path: Path) -> Path | None:
    """The outermost volume's directory in a path of the machine. Pods may have made inner ones."""
    real = Path(os.path.realpath(path))
    return next((each for each in reversed(real.parents) if _is_volume(each)), None)


def _is_volume(folder: Path) -> bool:
    found = folder.stat()
    closed = found.st_uid == os.geteuid() and not found.st_mode & 0o077
    return closed and (folder / _OWNER).is_file()


def _read(handle: int, folder: Path) -> VolumeOwner | None:
    user = os.fstat(handle).st_uid
    if user != os.geteuid():
        raise VolumeOwned(f"{folder} was made by user {user}, not by the node: remove it")
    try:
        with open_regular_beneath(handle, _OWNER) as file:
            return msgspec.json.decode(file.read(), type=VolumeOwner)
    except FileNotFoundError:
        return None
    except msgspec.MsgspecError as problem:
        raise VolumeOwned(f"{folder / _OWNER} can't be read: {problem}") from None


def _attribute() -> str:
    """Only root sees ``trusted``; others have ``user``."""
    return "trusted.pilothouse.owner" if os.geteuid() == 0 else "user.pilothouse.owner"


def _read_attribute(handle: int, path: Path) -> VolumeOwner | None:
    try:
        return msgspec.json.decode(os.getxattr(handle, _attribute()), type=VolumeOwner)
    except OSError as problem:
        if problem.errno in _WITHOUT_ATTRIBUTES:
            return None
        raise
    except msgspec.MsgspecError as problem:
        raise VolumeOwned(f"{_attribute()} of {path} can't be read: {problem}") from None


def _write_attribute(handle: int, owner: VolumeOwner) -> None:
    try:
        os.setxattr(handle, _attribute(), msgspec.json.encode(owner))
    except OSError as problem:
        if problem.errno not in _WITHOUT_ATTRIBUTES:
            raise


def _write(folder: int, owner: VolumeOwner) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    with closing_handle(os.open(_DRAFT, flags, 0o600, dir_fd=folder)) as draft:
        os.write(draft, msgspec.json.encode(owner))
        os.fsync(draft)
    os.rename(_DRAFT, _OWNER, src_dir_fd=folder, dst_dir_fd=folder)
    os.fsync(folder)
