"""The default store: a folder with an SQLite database.

    store = await SqliteStore.open(Path("data/store"))
    await store.create("/a", b"1")          # on disk when this returns

* *The loop's thread* has the latest value of every key, decides writes, notifies watchers and serves reads of
  the present. No SQL.
* *The writing thread* (`GroupCommit`) appends decided writes to the revision log, all waiting ones in one
  transaction, and does housekeeping in between.
* *The reading thread* reads the past on a second connection: old listings, and changes for watchers behind.

A key with a write under way is *busy*: further writes to it, or guarded by it, wait until it is durable. So
no reader gets a value that could still be lost. If a commit fails, all writes under way end with
``Unavailable``, the loop takes over what is on disk, and their revisions are not reused.

On a full disk deletions and compaction continue (``disk_space``). A damaged file is no longer written to;
reads of the present continue from memory (``damage_messages``).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Coroutine, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import apsw

from pilothouse.aio.group_commit import Closed, GroupCommit
from pilothouse.base.histogram import Histogram
from pilothouse.store.damage_messages import at_start, while_running
from pilothouse.store.disk_space import DiskSpace, opened_log
from pilothouse.store.in_process_store import InProcessStore, Past
from pilothouse.store.interface import Change, Damaged, Entry, Guard, NoSpace, StoreError, Unavailable
from pilothouse.store.keys import end_of
from pilothouse.store.revision_log import DAMAGE, DISK_FULL, LogReader, RevisionLog, Row
from pilothouse.store.store_directory import StoreDirectory
from pilothouse.store.store_health import StoreHealth

_log = logging.getLogger(__name__)

_R = TypeVar("_R")

FILE = "store.db"
_LOOK_SECONDS = 5.0
"""How often a full disk is checked for room."""


class SqliteStore(InProcessStore):
    def __init__(
        self,
        folder: StoreDirectory,
        log: RevisionLog,
        reader: LogReader,
        latest: Iterable[Row],
        space: DiskSpace,
        *,
        clock: Callable[[], float],
        largest: int,
        progress_every: float,
        reserve_after: float,
    ) -> None:
        self._folder = folder
        self._log = log
        self._reader = reader
        self._space = space
        self._damage = self._failure = ""
        rows = list(latest)
        super().__init__(
            {row.key: Entry(row.key, row.value or b"", row.revision, row.created) for row in rows},
            revision=log.revision,
            compacted=log.compacted,
            clock=clock,
            largest=largest,
            progress_every=progress_every,
        )
        for row in rows:
            if row.expiry is not None:
                self._expirations.add(row.key, row.revision, row.expiry)
        self._busy: dict[str, list[asyncio.Future[None]]] = {}
        self._assigned = self._durable = self._revision
        self._in_doubt = False
        self._landed: list[Row] = []
        self._commits: GroupCommit[Row] = GroupCommit(
            self._commit, self._applied, self._failed, name="store-writer"
        )
        self._reading = ThreadPoolExecutor(1, thread_name_prefix="store-reader")
        self._untidy = asyncio.Event()
        self._untidy.set()
        self._tasks = (
            asyncio.create_task(self._keep_house(), name="store-housekeeping"),
            asyncio.create_task(self._keep_space(reserve_after), name="store-space"),
        )

    @classmethod
    async def open(
        cls,
        path: Path,
        *,
        restored: bool = False,
        clock: Callable[[], float] = time.time,
        largest: int = 8 << 20,
        progress_every: float = 5.0,
        reserve_after: float = 10.0,
        vfs: str = "",
    ) -> SqliteStore:
        """Lock the folder and read it.

        ``restored``: the files are from an earlier time and not from ``copy_to``, so the store continues far
        above any revision that clients may have seen. Disk space is reserved after ``reserve_after`` seconds.
        ``vfs`` is SQLite's.
        """

        def blocking() -> tuple[StoreDirectory, RevisionLog, LogReader, list[Row], DiskSpace]:
            folder = StoreDirectory.claim(path)
            try:
                file = folder.private_file(FILE)
                log, full = opened_log(file, vfs)
                if restored:
                    log.leap()
                return folder, log, LogReader(file, vfs=vfs), log.latest(), DiskSpace(file, log, full=full)
            except DAMAGE as error:
                folder.release()
                raise StoreError(at_start(path / FILE, error)) from error
            except apsw.Error as error:
                folder.release()
                raise StoreError(f"{path / FILE} can't be opened: {error}") from error
            except BaseException:
                folder.release()
                raise

        opened = await asyncio.to_thread(blocking)
        return cls(
            *opened, clock=clock, largest=largest, progress_every=progress_every, reserve_after=reserve_after
        )

    @property
    def condition(self) -> StoreHealth:
        return StoreHealth(self._space.full, self._damage, self._failure)

    @property
    def group_sizes(self) -> Histogram:
        """How many writes became durable together."""
        return self._commits.sizes

    @property
    def commit_seconds(self) -> Histogram:
        """How long the commits took."""
        return self._commits.seconds

    def create(
        self, key: str, value: bytes, *, ttl: float = 0, guard: Guard | None = None
    ) -> Coroutine[Any, Any, int]:
        return self._write(key, value, 0, ttl, guard)

    def update(
        self, key: str, value: bytes, *, revision: int, ttl: float = 0, guard: Guard | None = None
    ) -> Coroutine[Any, Any, int]:
        return self._write(key, value, revision or -1, ttl, guard)

    def delete(self, key: str, *, revision: int, guard: Guard | None = None) -> Coroutine[Any, Any, int]:
        return self._write(key, None, revision or -1, 0, guard)

    async def compact(self, revision: int) -> None:
        self._check_open()
        self._check_reached(revision)
        if revision <= self._compacted:
            return
        try:
            await self._commits.between(lambda: self._space.within(lambda: self._log.compact(revision)))
        except (Closed, apsw.Error) as error:
            self._note_damage(error)
            raise Unavailable(f"can't compact: {error or 'the store is closed'}") from error
        self._compacted = max(self._compacted, revision)
        self._untidy.set()

    async def copy_to(self, path: Path) -> None:
        """Copy the running store to a file that must not exist; it can be opened as ``store.db``."""
        self._check_open()
        try:
            await self._read(lambda: self._reader.copy_to(path))
        except FileExistsError as error:
            raise StoreError(f"{path} exists; a copy is written to a new file") from error

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._expirations.stop()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._commits.close()
        self._settle(list(self._busy))
        self._watchers.close(Unavailable("the store is closed"))
        await asyncio.to_thread(self._close_files)

    async def changes(self, prefix: str, after: int, upto: int, limit: int) -> tuple[Sequence[Change], int]:
        self._check_kept(after)
        end = end_of(prefix)
        found = await self._read(lambda: self._reader.changes(prefix, end, after, upto, limit))
        self._check_kept(after)
        return found

    async def _past(self, prefix: str, start: str, end: str, revision: int, limit: int) -> Past:
        return await self._read(lambda: self._reader.page(start, end, revision, limit))

    async def _write(
        self, key: str, value: bytes | None, revision: int, ttl: float, guard: Guard | None
    ) -> int:
        """Write if the key is at ``revision`` (0: it does not exist)."""
        if value is not None:
            self._check_size(key, value)
        if not key.isascii():
            # A key with no UTF-8 form fails here, alone, rather than with its whole group.
            key.encode()
        if value is not None and not self._has_room(key, value):
            await self._look_for_room(key, value)
        while busy := self._busy_among(key, guard):
            await self._settled(busy)
        self._check_open()
        if self._damage:
            raise Damaged(self._damage)
        self._check_revisions(key, revision, guard)
        row = self._decide(key, value, self._clock() + ttl if ttl > 0 else None)
        try:
            await self._commits.submit(row)
        except Closed as error:
            raise Unavailable("the store is closed") from error
        except Exception as error:
            raise Unavailable(f"{key} may not have been written: {error}") from error
        return row.revision

    def _busy_among(self, key: str, guard: Guard | None) -> str:
        """A key that the write depends on and that is being written; empty if none."""
        if key in self._busy:
            return key
        if guard is None:
            return ""
        return next((each.key for each in guard.every() if each.key in self._busy), "")

    def _decide(self, key: str, value: bytes | None, expiry: float | None) -> Row:
        """Give an accepted write its place in the log; its key is busy from here on."""
        old = self._entries.get(key)
        self._assigned = revision = self._assigned + 1
        self._busy[key] = []
        created = 0 if value is None else old.created if old is not None else revision
        return Row(revision, key, value, created, old.revision if old is not None else 0, expiry)

    async def _settled(self, key: str) -> None:
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._busy[key].append(waiter)
        await waiter

    def _settle(self, keys: Iterable[str]) -> None:
        for key in keys:
            for waiter in self._busy.pop(key, ()):
                if not waiter.done():
                    waiter.set_result(None)

    def _expire(self, key: str, revision: int) -> None:
        if self._stands_at(key) != revision or self._damage:
            return
        if key in self._busy:
            self._expirations.add(key, revision, self._clock() + 1)
            return
        deletion = self._commits.submit(self._decide(key, None, None))

        def again(outcome: asyncio.Future[None]) -> None:
            if not outcome.cancelled() and outcome.exception() and not self._closed:
                self._expirations.add(key, revision, self._clock() + 1)

        deletion.add_done_callback(again)

    def _commit(self, rows: Sequence[Row]) -> None:
        try:
            if self._in_doubt:
                # These writes were decided before the truth was known: find it out, and let them fail too.
                self._read_truth()
                raise Unavailable("the writes before it had failed")
            try:
                self._space.within(lambda: self._log.append(rows))
            except Exception:
                self._in_doubt = True
                with contextlib.suppress(apsw.Error):
                    self._read_truth()
                raise
        except DAMAGE as error:
            self._note_damage(error)
            raise
        self._space.written(rows)
        self._durable = rows[-1].revision

    def _read_truth(self) -> None:
        self._landed = self._log.since(self._durable)
        if self._landed:
            self._durable = self._landed[-1].revision
        self._in_doubt = False

    def _applied(self, rows: Sequence[Row]) -> None:
        changes = []
        entries = self._entries
        for revision, key, value, created, _, expiry in rows:
            old = entries.get(key)
            if value is None:
                if old is not None:
                    del entries[key]
                    self._keys.remove(key)
            else:
                entries[key] = Entry(key, value, revision, created)
                if old is None:
                    self._keys.add(key)
                if expiry is not None:
                    self._expirations.add(key, revision, expiry)
            changes.append(Change(key, revision, value))
        self._revision = rows[-1].revision
        self._failure = ""
        self._watchers.publish(changes, self._revision)
        self._settle([row.key for row in rows])
        if self._log.wants_checkpoint:
            self._untidy.set()

    def _failed(self, error: Exception) -> None:
        _log.error("a commit has failed, and with it %d writes: %s", len(self._busy), error)
        landed, self._landed = self._landed, []
        if landed:
            self._applied(landed)
        self._failure = str(error)
        self._settle(list(self._busy))

    def _has_room(self, key: str, value: bytes) -> bool:
        old = self._entries.get(key)
        return self._space.admits(len(value), replaced=None if old is None else len(old.value))

    async def _look_for_room(self, key: str, value: bytes) -> None:
        """Check whether the disk is still full. Raises ``NoSpace``."""
        with contextlib.suppress(Closed, apsw.Error):
            await self._commits.between(self._space.look)
        if not self._has_room(key, value):
            raise NoSpace(f"{key} was not written: {self.condition.problem}")

    def _note_damage(self, error: Exception) -> None:
        if isinstance(error, DAMAGE) and not self._damage:
            self._damage = while_running(error)
            _log.critical("%s: %s", self._folder.path / FILE, self._damage)

    async def _keep_house(self) -> None:
        """Compact and checkpoint, in short calls between commits."""
        between, within = self._commits.between, self._space.within
        while not self._damage:
            await self._untidy.wait()
            self._untidy.clear()
            try:
                swept = False
                while self._log.wants_compacting:
                    await between(lambda: within(self._log.sweep))
                    swept = True
                    if self._log.frugal and self._log.wants_checkpoint:
                        # What is swept makes room for it, if there is none yet.
                        with contextlib.suppress(DISK_FULL):
                            await between(self._space.checkpoint)
                if self._log.wants_checkpoint:
                    await between(self._space.checkpoint)
                if swept:
                    await between(self._space.swept)
            except apsw.Error as error:
                self._note_damage(error)
                _log.warning("housekeeping is put off: %s", error)
                await asyncio.sleep(1)
                self._untidy.set()

    async def _keep_space(self, after: float) -> None:
        """Reserve disk space, again as soon as possible after it was used."""
        await asyncio.sleep(after)
        while not self._damage:
            with contextlib.suppress(apsw.Error):
                await self._commits.between(self._space.look if self._space.full else self._space.keep_back)
            await asyncio.sleep(_LOOK_SECONDS)

    async def _read(self, read: Callable[[], _R]) -> _R:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._reading, read)
        except apsw.Error as error:
            self._note_damage(error)
            raise Unavailable(f"history can't be read: {error}") from error
        except RuntimeError as error:
            raise Unavailable("the store is closed") from error

    def _close_files(self) -> None:
        self._reading.shutdown()
        self._reader.close()
        self._log.close()
        self._folder.release()
