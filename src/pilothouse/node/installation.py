"""This installation, as containers need it: pods of databases start ``pilothouse pilot``.

    View(hostname="db-0", machine=installation())

An interpreter, a virtual environment and a source folder know their own paths, so a container sees them, read-only, where they are on
the machine, and nothing else of the folders that they are in.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pilothouse


def installation() -> tuple[str, ...]:
    """What has to be there for this very program to run."""
    return (sys.prefix, sys.base_prefix, str(Path(pilothouse.__file__).parent), sys.executable)
