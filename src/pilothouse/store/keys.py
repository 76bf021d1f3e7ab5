"""The order of keys, and a sorted set of them.

    keys = SortedKeys(["/a/1", "/a/2", "/b"])
    keys.page("/a/", end_of("/a/"), limit=1)    # (["/a/1"], 1): the keys, and how many follow

Keys sort by UTF-8 bytes, which is Python's order of text. The set is a list of short sorted lists, so the
cost of an insert does not grow with the number of keys.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable

_CHUNK = 512


def end_of(prefix: str) -> str:
    """The smallest text after every key that starts with ``prefix``; empty if there is none."""
    for i in range(len(prefix) - 1, -1, -1):
        code = ord(prefix[i])
        if code < 0x10FFFF:
            # Half surrogates have no UTF-8 form: the character after U+D7FF is U+E000.
            return prefix[:i] + chr(0xE000 if code == 0xD7FF else code + 1)
    return ""


def start_of(prefix: str, after: str) -> str:
    """The smallest text that a key can be which starts with ``prefix`` and sorts after the key ``after``."""
    return max(prefix, after + "\0") if after else prefix


class SortedKeys:
    def __init__(self, keys: Iterable[str] = ()) -> None:
        ordered = sorted(set(keys))
        self._chunks = [ordered[i : i + _CHUNK] for i in range(0, len(ordered), _CHUNK)] or [[]]
        self._first = [chunk[0] if chunk else "" for chunk in self._chunks]

    def __len__(self) -> int:
        return sum(map(len, self._chunks))

    def add(self, key: str) -> None:
        """Put in a key that is not there yet."""
        i = self._chunk_for(key)
        chunk = self._chunks[i]
        insort(chunk, key)
        self._first[i] = chunk[0]
        if len(chunk) > 2 * _CHUNK:
            self._chunks.insert(i + 1, chunk[_CHUNK:])
            self._first.insert(i + 1, chunk[_CHUNK])
            del chunk[_CHUNK:]

    def remove(self, key: str) -> None:
        """Take out a key that is there."""
        i = self._chunk_for(key)
        chunk = self._chunks[i]
        del chunk[bisect_left(chunk, key)]
        if chunk:
            self._first[i] = chunk[0]
        elif len(self._chunks) > 1:
            del self._chunks[i], self._first[i]

    def page(self, start: str, end: str, *, limit: int = 0) -> tuple[list[str], int]:
        """The first ``limit`` keys (0: all) in ``start`` ≤ key < ``end`` ("": no end), and how many
        follow."""
        i, offset = self._place(start)
        last, stop = self._place(end) if end else (len(self._chunks) - 1, len(self._chunks[-1]))
        keys: list[str] = []
        remaining = 0
        for n in range(i, last + 1):
            chunk = self._chunks[n]
            low = offset if n == i else 0
            high = stop if n == last else len(chunk)
            if low >= high:
                continue
            take = min(high - low, limit - len(keys)) if limit else high - low
            keys += chunk[low : low + take]
            remaining += high - low - take
        return keys, remaining

    def _chunk_for(self, key: str) -> int:
        return max(bisect_right(self._first, key) - 1, 0)

    def _place(self, key: str) -> tuple[int, int]:
        i = self._chunk_for(key)
        return i, bisect_left(self._chunks[i], key)
