"""The order of released versions: as in Semantic Versioning, and then by the number of the build.

    ReleaseVersion("v1.30.1+k0s.1") > ReleaseVersion("v1.30.1+k0s.0") > ReleaseVersion("v1.30.1")
    ReleaseVersion("1.30.1") > ReleaseVersion("v1.30.1-rc.10") > ReleaseVersion("v1.30.1-rc.9")
    newer("v1.31.0", running="v1.30.4")      # True

Semantic Versioning ignores what follows ``+``. A distribution that builds the same release again counts there
(``+k0s.1``), so that number decides between equal releases; other text after ``+`` does not.
"""

from __future__ import annotations

import re
from functools import total_ordering
from typing import Final

_VERSION: Final = re.compile(
    r"v?(\d{1,9})\.(\d{1,9})(?:\.(\d{1,9}))?(?:-([0-9A-Za-z.-]+))?(?:\+([0-9A-Za-z.-]+))?", re.ASCII
)
_BUILD: Final = re.compile(r"[a-z0-9]+\.(\d{1,9})", re.ASCII)
_LONGEST: Final = 128

_Identifier = tuple[bool, int, str]


class ReleaseVersionError(ValueError):
    """The text is not a version that has a place in an order."""

    def __init__(self, text: str) -> None:
        super().__init__(
            f"{text[:_LONGEST]!r} is not a version: expected one such as v1.32.4 or v1.32.4+k0s.0"
        )


@total_ordering
class ReleaseVersion:
    """A version that can be compared. Equal ones may be written differently (``1.2.0`` and ``v1.2.0``)."""

    def __init__(self, text: str) -> None:
        """Raises ReleaseVersionError."""
        parts = _VERSION.fullmatch(text) if len(text) <= _LONGEST else None
        if parts is None:
            raise ReleaseVersionError(text)
        major, minor, patch, pre_release, build = parts.groups()
        self.text = text
        self.release: Final = (int(major), int(minor), int(patch or 0))
        self._key: Final = (self.release, pre_release is None, _identifiers(pre_release), _build(build))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ReleaseVersion) and self._key == other._key

    def __lt__(self, other: ReleaseVersion) -> bool:
        return self._key < other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __repr__(self) -> str:
        return f"ReleaseVersion({self.text!r})"


def newer(offered: str, running: str) -> bool:
    """Whether an offer is newer than what runs. An offer without a place in the order is never newer; something
    without one that runs is always older."""
    try:
        offer = ReleaseVersion(offered)
    except ReleaseVersionError:
        return False
    try:
        return offer > ReleaseVersion(running)
    except ReleaseVersionError:
        return True


def _identifiers(pre_release: str | None) -> tuple[_Identifier, ...]:
    """Numbers count as numbers and come before words; a longer list comes after its beginning."""
    return tuple(
        (not part.isdigit(), int(part[:18]) if part.isdigit() else 0, part)
        for part in (pre_release or "").split(".")
    )


def _build(text: str | None) -> int:
    found = _BUILD.fullmatch(text or "")
    return int(found[1]) if found else -1
