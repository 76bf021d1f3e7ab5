"""The order of released versions: semantic versioning, and then the number of the build.

    release_order("v1.30.1+k0s.1") > release_order("v1.30.1+k0s.0") > release_order("v1.30.1")
    newer("v1.31.0", running="v1.30.4+k0s.2")      # True

Semantic versioning ignores what follows ``+``. A distribution that builds the same release again counts there
(``+k0s.1``), so that number decides between equal releases; other text after ``+`` does not.
"""

from __future__ import annotations

import re
from typing import Final

from pilothouse.meta.versions import Version, VersionError

_BUILD: Final = re.compile(r"[a-z0-9]+\.(\d{1,9})", re.ASCII)


def release_order(text: str) -> tuple[Version, int]:
    """A key by which versions are compared. Raises VersionError, a ValueError."""
    version = Version.parse(text)
    build = _BUILD.fullmatch(version.build)
    return version, int(build[1]) if build else -1


def is_release(text: str) -> bool:
    """Whether a text is a version that can be compared."""
    try:
        release_order(text)
    except VersionError:
        return False
    return True


def newer(offered: str, running: str) -> bool:
    """Whether an offer is newer than what runs.

    An offer that is no version is never newer; something that runs and is none is always older.
    """
    try:
        offer = release_order(offered)
    except VersionError:
        return False
    try:
        return offer > release_order(running)
    except VersionError:
        return True
