"""What is said of a database file that is damaged: what, where, and what to do.

    raise StoreError(at_start(file, error))         # nothing runs yet
    condition = Condition(damage=while_running(error))

A server that meets the damage while it runs still has every object in memory, and a backup is made from there.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

import apsw

DAMAGE = (apsw.CorruptError, apsw.NotADBError)
"""What SQLite raises when it finds a file damaged."""


def at_start(file: Path, error: Exception) -> str:
    """For a store that can't be opened."""
    return (
        f"{file} is damaged: {_details(file) or error}. Nothing was changed. Put the whole folder {file.parent} aside, "
        "and restore the last backup into a new data folder with `pilothouse restore FILE --data FOLDER`; without a backup, "
        "`sqlite3 store.db .recover` on a copy saves what can be read. Check the disk, too"
    )


def while_running(error: Exception) -> str:
    """For a store that has everything in memory."""
    return (
        f"the database file is damaged: {error}. Nothing is written any more, and objects are read from memory: "
        "take a backup now, with `pilothouse backup FILE`, before this server is stopped; then stop it, and restore the backup "
        "into a new data folder with `pilothouse restore FILE --data FOLDER`. Check the disk, too"
    )


def _details(file: Path) -> str:
    """The first things that are wrong, as SQLite says it; empty if it can't even say that."""
    with contextlib.suppress(apsw.Error):
        connection = apsw.Connection(str(file), flags=apsw.SQLITE_OPEN_READONLY)
        try:
            found = [str(row[0]) for row in connection.execute("PRAGMA integrity_check(3)")]
        finally:
            connection.close()
        if found != ["ok"]:
            return "; ".join(each.replace("\n", " ") for each in found)
    return ""
