"""Rows in a Postgres that may be killed or away at any time; those that it has acknowledged have to be there.

rows = AcknowledgedRows(lambda: address)        # empty while there is no server
with rows.written():
    …
rows.check()
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from hashlib import md5
from threading import Event

_TABLE = "create table rows (number bigint primary key, note text not null)"
_INSERT = "insert into rows values ({0}, repeat(md5('{0}'), 8)) returning number;\n"
_CHECKSUM = "select md5(string_agg(number || note, ',' order by number)) from rows where number <= {}"
_PAUSE = 0.01


class AcknowledgedRows:
    def __init__(self, address: Callable[[], str]) -> None:
        self._address = address
        self._attempted = 0
        self.acknowledged: list[int] = []
        self.connections = 0
        """How often a client has connected and had a row acknowledged."""

    def create(self) -> None:
        self._asked(_TABLE)

    @contextmanager
    def written(self) -> Iterator[None]:
        """One client inserts rows all the time; it connects again whenever its connection is lost."""
        over = Event()

        def write() -> None:
            while not over.wait(_PAUSE):
                if address := self._address():
                    # A client that has lost its server has input left to flush when it is closed.
                    with suppress(BrokenPipeError):
                        self._connected(address, over)

        with ThreadPoolExecutor(1) as pool:
            writing = pool.submit(write)
            try:
                yield
            finally:
                over.set()
                writing.result()

    def _connected(self, address: str, over: Event) -> None:
        """Each row is a transaction, and psql prints its number once it is committed."""
        words = [*_client(address), "-v", "ON_ERROR_STOP=1"]
        with subprocess.Popen(
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=_environment(),
            text=True,
        ) as client:
            assert client.stdin is not None
            assert client.stdout is not None
            first = len(self.acknowledged)
            try:
                while not over.wait(_PAUSE):
                    self._attempted += 1
                    client.stdin.write(_INSERT.format(self._attempted))
                    client.stdin.flush()
                    if client.stdout.readline() != f"{self._attempted}\n":
                        break
                    self.acknowledged.append(self._attempted)
            except BrokenPipeError:
                pass
            finally:
                client.kill()
            self.connections += len(self.acknowledged) > first

    def checksum(self, last: int) -> str:
        """Of the rows up to this number, which nobody changes any more; empty if no server answers."""
        return self._answer(_CHECKSUM.format(last))

    def check(self) -> None:
        """Every acknowledged row is there, and every row is what was written."""
        found = dict(line.split("|") for line in self._asked("select * from rows").splitlines())
        wrong = {number for number, note in found.items() if note != md5(number.encode()).hexdigest() * 8}
        assert not wrong
        assert all(int(number) <= self._attempted for number in found)
        lost = [number for number in self.acknowledged if str(number) not in found]
        assert not lost, f"acknowledged, and lost: {lost}"

    def _answer(self, query: str) -> str:
        address = self._address()
        words = [*_client(address), "-c", query]
        done = subprocess.run(
            words, capture_output=True, text=True, timeout=60, check=False, env=_environment()
        )
        return done.stdout.strip() if address and done.returncode == 0 else ""

    def _asked(self, query: str) -> str:
        words = [*_client(self._address()), "-c", query]
        done = subprocess.run(
            words, capture_output=True, text=True, timeout=60, check=False, env=_environment()
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()


def _client(address: str) -> list[str]:
    return ["psql", "-h", address, "-U", "postgres", "-XqtA"]


def _environment() -> dict[str, str]:
    return {**os.environ, "PGCONNECT_TIMEOUT": "5"}
