"""Keeps the interpreter from reading a container's files between entering its mount namespace and `exec`.

In between, this process has rights that the program must not have. A module that it imports, a codec that it
looks up, or a source line that it quotes in a traceback would be the container's own.
"""

from __future__ import annotations

import os
import sys


def isolate_interpreter() -> None:
    """Import nothing more, quote no source, and exit at once on an uncaught exception."""
    sys.path.clear()
    sys.path_hooks.clear()
    sys.meta_path.clear()
    sys.path_importer_cache.clear()
    sys.tracebacklimit = 0
    sys.excepthook = lambda *_: os._exit(1)
    sys.unraisablehook = lambda _: None
