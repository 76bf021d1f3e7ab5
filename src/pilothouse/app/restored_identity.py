"""The identity of a restored control plane: never that of the original.

Volumes refer to their control plane by the uid of kube-system (``node.volumes.volume_owners``). A restored
one leaves those of the original alone, or takes them over if it replaces it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from pilothouse.api.local_volumes import (
    ADOPTS_VOLUMES_OF,
    PROVISIONED_BY,
    PROVISIONERS,
    RESTORED_AT,
    RESTORED_FROM,
)
from pilothouse.apiserver.discovery.catalog import ROOT
from pilothouse.base.rfc3339 import format_time
from pilothouse.base.uids import new_uid
from pilothouse.node.volumes.cluster_identity import NAMESPACE
from pilothouse.node.volumes.volume_owners import agent_lives, read_owner
from pilothouse.store.backup_file import Saved

_KEY: Final = f"{ROOT}namespaces/{NAMESPACE}"
_VOLUMES: Final = f"{ROOT}persistentvolumes/"


@dataclass(frozen=True)
class RestoredIdentity:
    uid: str
    original: str
    """The uid of the original; empty if it had none."""
    adopts: tuple[str, ...] = ()
    """The uids of the control planes whose volumes it takes over."""
    restored: str = ""
    """When it was restored."""

    @classmethod
    def of(cls, entries: Iterable[Saved], *, adopts_volumes: bool, now: float) -> RestoredIdentity:
        """A random one."""
        found = next((saved for saved in entries if saved.key == _KEY), None)
        if found is None:
            return cls(new_uid(), "")
        metadata = msgspec.json.decode(found.value)["metadata"]
        before = str((metadata.get("annotations") or {}).get(ADOPTS_VOLUMES_OF) or "").split(",")
        adopts = dict.fromkeys((metadata["uid"], *filter(None, map(str.strip, before))))
        taken = tuple(adopts) if adopts_volumes else ()
        return cls(new_uid(), metadata["uid"], taken, format_time(now))

    def given(self, saved: Saved) -> Saved:
        """An entry as the restored control plane has it."""
        if saved.key != _KEY:
            return saved
        tree: dict[str, Any] = msgspec.json.decode(saved.value)
        metadata = tree["metadata"]
        metadata["uid"] = self.uid
        annotations = {
            name: value
            for name, value in (metadata.get("annotations") or {}).items()
            if name != ADOPTS_VOLUMES_OF
        }
        if self.adopts:
            annotations[ADOPTS_VOLUMES_OF] = ",".join(self.adopts)
        metadata["annotations"] = {
            **annotations,
            RESTORED_FROM: self.original,
            RESTORED_AT: self.restored,
        }
        return Saved(saved.key, msgspec.json.encode(tree))


def living_owner(entries: Iterable[Saved], identity: RestoredIdentity) -> str:
    """The data folder of a running node agent that uses volumes to be taken over; or empty."""
    folders = set()
    for saved in entries:
        if saved.key.startswith(_VOLUMES):
            tree = msgspec.json.decode(saved.value)
            path = ((tree.get("spec") or {}).get("local") or {}).get("path")
            annotations = tree["metadata"].get("annotations") or {}
            if path and annotations.get(PROVISIONED_BY) in PROVISIONERS:
                folders.add(Path(path).parent)
    owners = {
        owner.data for folder in folders if (owner := read_owner(folder)) and owner.cluster in identity.adopts
    }
    return next((data for data in sorted(owners) if agent_lives(Path(data))), "")
