"""Checks that the directories which the operator provides for volumes are safe to use.

    tier_problem(Path("/mnt/ssd"))         # "", or "/mnt/ssd belongs to user 1000, …"

Files of pods belong to real users of the machine, and may be set-user-id, so each volume's directory is
closed to others. That holds only if other users can't replace it.
"""

from __future__ import annotations

from pathlib import Path

from pilothouse.node.files.directory_owners import why_replaceable


def tier_problem(folder: Path) -> str:
    """Why others could replace the volumes in a directory, and what to do; empty if they can't."""
    return why_replaceable(folder, "the volumes")
