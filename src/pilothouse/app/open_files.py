"""How many files this process may have open: as many as the system lets it.

before = raise_open_files()             # 1024: what a program that is started from here should begin with
"""

from __future__ import annotations

import resource


def raise_open_files() -> int:
    """Raise the soft limit to the hard one, since connections are open files; returns the old."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return soft
