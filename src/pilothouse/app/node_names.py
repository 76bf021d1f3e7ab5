"""Names of nodes."""

from __future__ import annotations

import json
import re
import socket
from pathlib import Path

from pilothouse.app.options import StartError
from pilothouse.base.node_names import why_no_node_name


def default_node_name() -> str:
    """The host name, made a valid node name."""
    parts = re.sub(r"[^-a-z0-9.]+", "-", socket.gethostname().lower()).split(".")
    return ".".join(filter(None, (part.strip("-") for part in parts))) or "node"


def kept_node_name(kubeconfig: Path) -> str:
    """The name of the node of a data folder, since volumes belong to it; empty if there is none."""
    try:
        user = json.loads(kubeconfig.read_bytes())["users"][0]["name"]
    except FileNotFoundError:
        return ""
    except OSError as problem:
        raise StartError(f"{kubeconfig} can't be read: {problem.strerror}") from None
    except (ValueError, LookupError, TypeError):
        raise StartError(f"{kubeconfig} is damaged: remove it, or restore it") from None
    return str(user).removeprefix("system:node:")


def check_node_name(name: str) -> str:
    """The name itself. Raises ``StartError``."""
    if why := why_no_node_name(name):
        raise StartError(why)
    return name
