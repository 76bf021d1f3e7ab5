"""Valid names of nodes: lowercase RFC 1123 subdomains, as in Kubernetes.

A node's name is part of its user name, of the name in its serving certificate and of paths: so all code that
handles those applies this rule.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

LONGEST: Final = 253
_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_NAME: Final = re.compile(rf"{_LABEL}(\.{_LABEL})*")


@lru_cache(maxsize=4096)
def is_node_name(name: str) -> bool:
    return len(name) <= LONGEST and _NAME.fullmatch(name) is not None


def why_no_node_name(name: str) -> str:
    """Why the name is invalid; empty if it is valid."""
    if is_node_name(name):
        return ""
    return (
        f"{name[: LONGEST + 1]!r} is no name for a node: it has up to {LONGEST} lower-case letters, digits, "
        "'-' and '.', with a letter or digit at both ends and beside each '.'"
    )
