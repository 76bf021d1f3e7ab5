"""How many files this process may have open."""

from __future__ import annotations

import resource


def raise_open_files() -> int:
    """Raise the soft limit to the hard one, since connections are open files; returns the old."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return soft
