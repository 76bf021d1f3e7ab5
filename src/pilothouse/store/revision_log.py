"""The revision log: every write of a store as one row of an SQLite table. All calls block.

    log = RevisionLog(path)
    log.append([Row(2, "/a", b"1", created=2, previous=0, expiry=None)])    # one transaction, durable
    LogReader(path).page("/", "0", revision=2, limit=10)

A row is a value or, with ``created`` 0, a tombstone; ``previous`` is the revision that it replaces.

*Compaction* walks the revisions in order, a few at a time: each row names the row that it made obsolete, and
a tombstone is itself obsolete. The mark ``compacted`` is durable before the first row is removed; ``swept``
is the progress of the walk.

*A revision is never reused.* The log is at its highest row or ``compacted``, whichever is higher. A copy made
with ``copy_to`` is marked: a store that opens it starts far above any revision of the original, with all
below compacted, so that clients list again.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import apsw

from pilothouse.store.interface import Change, Entry
from pilothouse.store.revision_offset import RESTORE_LEAP

_SCHEMA = """
CREATE TABLE IF NOT EXISTS log (
  revision INTEGER PRIMARY KEY,
  key TEXT NOT NULL,
  value BLOB,
  created INTEGER NOT NULL,
  previous INTEGER NOT NULL,
  expiry REAL
);
CREATE INDEX IF NOT EXISTS log_by_key ON log (key, revision, created);
CREATE TABLE IF NOT EXISTS mark (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
"""

_STOOD = """
SELECT key, revision FROM (
  SELECT key, max(revision) AS revision, created FROM log
  WHERE key >= ?1 AND key < ?2 AND revision <= ?3 GROUP BY key
) WHERE created > 0
"""

_PAGE = f"""
SELECT l.key, l.value, l.revision, l.created FROM ({_STOOD} ORDER BY key LIMIT ?4) AS stood
CROSS JOIN log AS l ON l.revision = stood.revision
"""

_COUNT = f"SELECT count(*) FROM ({_STOOD})"

_CHANGES = """
SELECT key, revision, value, created FROM log
WHERE revision > ? AND revision <= ? AND key >= ? AND key < ? ORDER BY revision LIMIT ?
"""

FIRST_REVISION = 1
"""Where an empty store stands. 0 is a reserved word in the protocol."""

_CHECKPOINT_PAGES = 4096
_FRUGAL_CHECKPOINT_PAGES = 256
"""On a full disk: the write-ahead log is used over and over instead of growing."""
_CHECKPOINT_BY_FORCE_PAGES = 16 * _CHECKPOINT_PAGES

_ROW = "(?,?,?,?,?,?)"
_ROWS_PER_STATEMENT = 512


DISK_FULL = apsw.FullError
"""What is raised where the disk has no room."""
DAMAGE = (apsw.CorruptError, apsw.NotADBError)
"""What is raised where the file makes no sense."""
NO_WAY_IN = (apsw.FullError, apsw.IOError, apsw.CantOpenError)
"""What is raised where a log can't be opened, for want of room among other things."""


class Row(NamedTuple):
    """One write, as it is stored."""

    revision: int
    key: str
    value: bytes | None
    created: int
    previous: int
    expiry: float | None


class RevisionLog:
    """A connection that writes, to be used by one thread at a time."""

    def __init__(self, path: Path, *, vfs: str = "") -> None:
        self._connection = _connect(path, vfs)
        self._wal_pages = 0
        self.compacted = self._swept = 0
        self.frugal = False
        """Whether to take as little of the disk as possible."""
        try:
            self._prepare()
        except BaseException:
            # Another attempt in this process would meet leftovers of this one.
            self._connection.close()
            raise

    def _prepare(self) -> None:
        execute = self._connection.execute
        # A commit is durable with FULL in WAL mode. EXTRA also syncs the folder when the switch to WAL
        # deletes the journal: it could reappear after a power cut and undo everything.
        execute("PRAGMA synchronous = EXTRA").fetchall()
        execute("PRAGMA journal_mode = WAL").fetchall()
        execute(_SCHEMA)
        # Replaces SQLite's automatic checkpoint, which would make some writer wait for it.
        self._connection.set_wal_hook(self._note_wal)
        self.compacted = self._mark("compacted")
        self._swept = self._mark("swept")
        if self._mark("copy"):
            self.leap()

    @property
    def revision(self) -> int:
        """The highest revision ever used here, as far as the log knows."""
        highest = _number(self._connection, "SELECT coalesce(max(revision), 0) FROM log")
        return max(FIRST_REVISION, highest, self.compacted)

    @property
    def wants_compacting(self) -> bool:
        return self._swept < self.compacted

    @property
    def wants_checkpoint(self) -> bool:
        return self._wal_pages >= (_FRUGAL_CHECKPOINT_PAGES if self.frugal else _CHECKPOINT_PAGES)

    @property
    def free_bytes(self) -> int:
        """What the database can store without growing."""
        free = _number(self._connection, "PRAGMA freelist_count")
        return free * _number(self._connection, "PRAGMA page_size")

    def append(self, rows: Sequence[Row]) -> None:
        """Write rows in one durable transaction.

        One statement writes many rows, as each statement releases and reacquires the interpreter's lock.
        """
        if len(rows) <= _ROWS_PER_STATEMENT:
            self._insert(rows)
            return
        with self._connection:
            for i in range(0, len(rows), _ROWS_PER_STATEMENT):
                self._insert(rows[i : i + _ROWS_PER_STATEMENT])

    def latest(self) -> list[Row]:
        query = (
            "SELECT revision, key, value, created, previous, expiry FROM log "
            "WHERE created > 0 AND revision NOT IN (SELECT previous FROM log)"
        )
        return [Row(*row) for row in self._connection.execute(query)]

    def since(self, revision: int) -> list[Row]:
        columns = "revision, key, value, created, previous, expiry"
        query = f"SELECT {columns} FROM log WHERE revision > ? ORDER BY revision"
        return [Row(*row) for row in self._connection.execute(query, (revision,))]

    def compact(self, revision: int) -> None:
        """Mark history below ``revision`` as compacted, durably. ``sweep`` then removes it."""
        self._set_mark("compacted", revision)
        self.compacted = revision

    def sweep(self, rows: int = 256) -> None:
        """Remove some compacted rows, in one short transaction."""
        execute = self._connection.execute
        low = self._swept
        with self._connection:
            window = "SELECT revision FROM log WHERE revision > ? AND revision <= ? ORDER BY revision LIMIT ?"
            last = f"SELECT coalesce(max(revision), 0) FROM ({window})"
            # Past the last row the walk is over: revisions that were never used need no steps.
            high = _number(self._connection, last, (low, self.compacted, rows)) or self.compacted
            obsolete = "SELECT previous FROM log WHERE revision > ? AND revision <= ? AND previous > 0"
            execute(f"DELETE FROM log WHERE revision IN ({obsolete})", (low, high))
            execute("DELETE FROM log WHERE revision > ? AND revision <= ? AND created = 0", (low, high))
            self._set_mark("swept", high)
        self._swept = high

    def checkpoint(self) -> None:
        """Move the pages of the write-ahead log into the database; by force if readers let it grow too
        long."""
        mode = apsw.SQLITE_CHECKPOINT_PASSIVE
        if self._wal_pages >= _CHECKPOINT_BY_FORCE_PAGES:
            mode = apsw.SQLITE_CHECKPOINT_TRUNCATE
        self._connection.wal_checkpoint(mode=mode)
        self._wal_pages = 0

    def leap(self) -> None:
        """Continue far above any revision that the original of this copy may have reached."""
        with self._connection:
            self.compact(self.revision + RESTORE_LEAP)
            self._connection.execute("DELETE FROM mark WHERE name = 'copy'")

    def close(self) -> None:
        self._connection.close()

    def _insert(self, rows: Sequence[Row]) -> None:
        statement = "INSERT INTO log VALUES " + ",".join([_ROW] * len(rows))
        self._connection.execute(statement, list(chain.from_iterable(rows)))

    def _mark(self, name: str) -> int:
        return _number(self._connection, "SELECT coalesce(max(value), 0) FROM mark WHERE name = ?", (name,))

    def _set_mark(self, name: str, value: int) -> None:
        self._connection.execute("INSERT OR REPLACE INTO mark VALUES (?, ?)", (name, value))

    def _note_wal(self, _connection: object, _database: str, pages: int) -> int:
        self._wal_pages = pages
        return int(apsw.SQLITE_OK)


class LogReader:
    """A connection that reads history, beside the one that writes; to be used by one thread at a time."""

    def __init__(self, path: Path, *, vfs: str = "") -> None:
        self._connection = _connect(path, vfs)

    def page(self, start: str, end: str, revision: int, limit: int) -> tuple[list[Entry], int]:
        """Keys in ``start`` ≤ key < ``end`` at ``revision``, and how many follow the first ``limit``."""
        where = (start, _bound(end), revision)
        rows = self._connection.execute(_PAGE, (*where, limit or -1))
        # A row that is missing has been compacted meanwhile; the caller looks at the mark and says so.
        entries = [Entry(*row) for row in rows]
        if not limit or len(entries) < limit:
            return entries, 0
        return entries, _number(self._connection, _COUNT, where) - limit

    def changes(self, prefix: str, end: str, after: int, upto: int, limit: int) -> tuple[list[Change], int]:
        """Changes in ``prefix`` ≤ key < ``end`` above ``after``, and the revision up to which they are
        complete."""
        rows = self._connection.execute(_CHANGES, (after, upto, prefix, _bound(end), limit))
        found = [Change(key, revision, value if created else None) for key, revision, value, created in rows]
        return found, found[-1].revision if len(found) == limit else upto

    def copy_to(self, path: Path) -> None:
        """Write a copy of everything, marked as one, to a file that must not exist."""
        # SQLite takes an empty file; made here, it is never anyone else's to read.
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        self._connection.execute("VACUUM INTO ?", (str(path),))
        copy = apsw.Connection(str(path))
        try:
            copy.execute("INSERT OR REPLACE INTO mark VALUES ('copy', 1)")
        finally:
            copy.close()

    def close(self) -> None:
        self._connection.close()


def first_faults(path: Path) -> str:
    """The first problems of a file that SQLite reports; empty if it can't, or there are none."""
    try:
        connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
        try:
            found = [str(row[0]) for row in connection.execute("PRAGMA integrity_check(3)")]
        finally:
            connection.close()
    except apsw.Error:
        return ""
    return "" if found == ["ok"] else "; ".join(each.replace("\n", " ") for each in found)


def _connect(path: Path, vfs: str) -> apsw.Connection:
    connection = apsw.Connection(str(path), vfs=vfs or None)
    # Only a checkpoint by force ever waits for the other connection.
    connection.set_busy_timeout(2000)
    return connection


def _number(connection: apsw.Connection, query: str, values: Sequence[str | bytes | int] = ()) -> int:
    """The one number that a query answers."""
    return int(connection.execute(query, tuple(values)).get)


def _bound(end: str) -> str | bytes:
    """An upper bound for keys. SQLite sorts every text before every blob, so an empty blob bounds nothing."""
    return end or b""
