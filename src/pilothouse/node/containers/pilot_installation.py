"""This installation, as containers need it: pods of databases start ``pilothouse pilot``.

    View(hostname="db-0", machine=installation())

An interpreter, a virtual environment and a source folder know their own paths, so a container sees them, read-only, where they are on
the machine, and nothing else of the folders that they are in.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

import pilothouse

_PARTS: Final = ("bin", "lib", "lib64", "pyvenv.cfg")
"""Of an interpreter's or environment's folder; it may hold other files, with passwords of a package index say."""


def installation() -> tuple[str, ...]:
    """What has to be there for this very program to run: its interpreter, its libraries wherever they are, itself."""
    prefixes = [Path(sys.prefix, part) for part in _PARTS] + [Path(sys.base_prefix, part) for part in _PARTS]
    libraries = [Path(each) for each in sys.path if each.endswith(("site-packages", "dist-packages"))]
    own = [Path(pilothouse.__file__).parent, Path(sys.executable)]
    return tuple(dict.fromkeys(str(each) for each in (*prefixes, *libraries, *own) if each.exists()))
