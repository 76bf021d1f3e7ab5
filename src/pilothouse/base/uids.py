"""Random UUIDs."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Final

_VARIANT: Final = "89ab"


_POOL: Final = 4096


class Uids:
    """Random UUIDs, version 4, as text. Several times faster than going through ``uuid.UUID``.

    Entropy is fetched for many at a time: asking the system for it costs more than all the rest. The
    simulator gives its own, so that the same seed gives the same identifiers.
    """

    __slots__ = ("_at", "_digits", "_entropy")

    def __init__(self, entropy: Callable[[int], bytes] = os.urandom) -> None:
        self._entropy = entropy
        self._digits = ""
        self._at = 0

    def new(self) -> str:
        at = self._at
        if at >= len(self._digits):
            self._digits = self._entropy(_POOL).hex()
            at = 0
        self._at = at + 32
        return _uuid(self._digits[at : at + 32])


def new_uid() -> str:
    """One random UUID."""
    return _uuid(os.urandom(16).hex())


def _uuid(digits: str) -> str:
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{_VARIANT[int(digits[16], 16) & 3]}{digits[17:20]}-{digits[20:]}"
