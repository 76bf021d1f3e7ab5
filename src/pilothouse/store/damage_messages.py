"""Messages about a damaged database file.

    raise StoreError(at_start(file, error))         # nothing runs yet
    condition = Condition(damage=while_running(error))

A running server still has every object in memory, so a backup can be made from there.
"""

from __future__ import annotations

from pathlib import Path

from pilothouse.store.revision_log import first_faults


def at_start(file: Path, error: Exception) -> str:
    """For a store that can't be opened."""
    return (
        f"{file} is damaged: {first_faults(file) or error}. Nothing was changed. Put the whole folder "
        f"{file.parent} aside, "
        "and restore the last backup into a new data folder with `pilothouse restore FILE --data FOLDER "
        "--adopt-volumes`; "
        "without a backup, `sqlite3 store.db .recover` on a copy saves what can be read. Check the disk, too"
    )


def while_running(error: Exception) -> str:
    """For a store that has everything in memory."""
    return (
        f"the database file is damaged: {error}. Nothing is written any more, and objects are read from "
        "memory: "
        "take a backup now, with `pilothouse backup FILE`, before this server is stopped; then stop it, and "
        "restore the backup "
        "into a new data folder with `pilothouse restore FILE --data FOLDER --adopt-volumes`. Check the "
        "disk, too"
    )
