"""Keeps the interpreter from reading a container's files while it is inside the container and before it execs.

Between entering a container's mount namespace and `exec`, this process has rights that the program must not have. A module
that it imports then, a codec that it looks up, or a source line that it quotes in a traceback would be the container's own.
"""

from __future__ import annotations

import os
import sys


def isolate_interpreter() -> None:
    """Import nothing more, quote no source, and end at once on an exception that nothing catches."""
    sys.path.clear()
    sys.path_hooks.clear()
    sys.meta_path.clear()
    sys.path_importer_cache.clear()
    sys.tracebacklimit = 0
    sys.excepthook = lambda *_: os._exit(1)
    sys.unraisablehook = lambda _: None
