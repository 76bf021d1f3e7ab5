"""The paths of this Pilothouse installation that a container needs to run ``pilothouse pilot``.

    FilesystemView(hostname="db-0", machine=installation())

Interpreters and virtual environments contain their own paths, so a container sees them read-only at the same
place.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

import pilothouse

_PARTS: Final = ("bin", "lib", "lib64", "pyvenv.cfg")
"""The parts of an interpreter's directory that are shown: others may hold secrets, as pip.conf does."""


def installation() -> tuple[str, ...]:
    """The existing paths of the interpreter, its libraries and this package."""
    prefixes = [Path(sys.prefix, part) for part in _PARTS] + [Path(sys.base_prefix, part) for part in _PARTS]
    libraries = [Path(each) for each in sys.path if each.endswith(("site-packages", "dist-packages"))]
    own = [Path(pilothouse.__file__).parent, Path(sys.executable)]
    return tuple(dict.fromkeys(str(each) for each in (*prefixes, *libraries, *own) if each.exists()))
