"""What a node may be called."""

from __future__ import annotations

import re
import socket

from pilothouse.app.options import StartError

_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")


def default_node_name() -> str:
    """The machine's host name, as far as it can be a node's."""
    name = re.sub(r"[^-a-z0-9.]+", "-", socket.gethostname().lower()).strip("-.")
    return name or "node"


def check_node_name(name: str) -> str:
    """The name itself. Raises ``StartError``."""
    if not _NAME.fullmatch(name):
        raise StartError(
            f"{name!r} is no name for a node: it has up to 253 lower-case letters, digits, '-' and '.', with a letter or "
            "digit at both ends"
        )
    return name
