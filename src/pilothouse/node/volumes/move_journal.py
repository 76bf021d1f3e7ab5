"""The journal of a move between tiers, in the volume's home: what the next agent continues with.

    write_move(home, MoveRecord("pvc-1234", "gold", "", "", "fast", MovePhase.COPYING))
    read_move(home)                     # None once the move is over

It is written before each phase. Which copy is the volume is in its record (``VolumeRecord.tier``) alone.

    COPYING     the copy in the target tier is incomplete; the source is the volume
    REPLACING   btrfs moves the data itself, and has both files open
    FINISHING   as COPYING, and pods that want the volume wait
    KEPT        the copy is the volume, and the source stays until its pod has been ready for a while
    REMOVING    the copy is the volume, and the source goes
    RETURNING   as KEPT; the source becomes the volume again, and pods that want it wait
    RETURNED    the source is the volume again, and stays so until the claim names another class
"""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path
from typing import Final

import msgspec

from pilothouse.node.volumes.volume_attributes import DEADLINE, KEEP
from pilothouse.node.volumes.volume_backend import VolumeBackendError, sync_directory, write_durably

_JOURNAL: Final = "move.json"


class MovePhase(StrEnum):
    COPYING = "Copying"
    REPLACING = "Replacing"
    FINISHING = "Finishing"
    KEPT = "Kept"
    REMOVING = "Removing"
    RETURNING = "Returning"
    RETURNED = "Returned"


HELD: Final = frozenset({MovePhase.FINISHING, MovePhase.RETURNING})
"""Phases in which no pod gets the volume."""


class MoveRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    volume: str
    attributes: str
    """The class that asks for it."""
    previous: str
    """The class that the claim had before; empty if none."""
    source: str
    """A tier, as in ``VolumeRecord.tier``."""
    target: str
    phase: MovePhase
    allocation: str = ""
    keep: float = KEEP
    deadline: float = DEADLINE
    reported: bool = False
    """Whether the claim's status says that it has the class."""
    mounted: float = 0.0
    """When a pod first had the copy; 0 if none had."""
    was_ready: bool = False
    """Whether a pod that has the copy was ever ready."""

    @property
    def allows_changes(self) -> bool:
        """Whether the claim may get another class beside it."""
        return self.phase is MovePhase.KEPT and self.reported

    @property
    def is_held(self) -> bool:
        return self.phase in HELD


def read_move(home: Path) -> MoveRecord | None:
    """Raises VolumeBackendError."""
    try:
        return msgspec.json.decode((home / _JOURNAL).read_bytes(), type=MoveRecord)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, msgspec.MsgspecError) as problem:
        raise VolumeBackendError(f"{home / _JOURNAL} can't be read: {problem}") from None


def write_move(home: Path, move: MoveRecord) -> None:
    """Raises OSError."""
    write_durably(home, _JOURNAL, msgspec.json.encode(move))


def remove_move(home: Path) -> None:
    """Raises OSError."""
    try:
        os.unlink(home / _JOURNAL)
    except FileNotFoundError:
        return
    sync_directory(home)
