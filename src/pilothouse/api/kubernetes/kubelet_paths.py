"""The paths of a kubelet's server, and the Node's subresource that each belongs to.

    opens_session("/exec/t/db-0/db")            # True
    subresource_of("/metrics/resource")         # "metrics"

Paths are resolved first: ``/metrics/../exec/t/db-0/db`` is an exec.
"""

from __future__ import annotations

from posixpath import normpath
from typing import Final
from urllib.parse import unquote

_SESSIONS: Final = frozenset({"exec", "attach", "run", "portforward", "cri"})
_SUBRESOURCES: Final = {"metrics": "metrics", "stats": "stats", "logs": "log"}


def opens_session(path: str) -> bool:
    """True if a path runs a program in a container or connects to one: needs ``create`` by any method."""
    return _first_segment(path).lower() in _SESSIONS


def subresource_of(path: str) -> str:
    """The Node's subresource that a caller needs access to."""
    return _SUBRESOURCES.get(_first_segment(path), "proxy")


def _first_segment(path: str) -> str:
    # Decoded until nothing changes: a proxy on the way may have decoded it once already.
    while (plain := unquote(path)) != path:
        path = plain
    return normpath("/" + path.lstrip("/")).split("/")[1]
