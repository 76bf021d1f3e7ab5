"""``/version``. Clients read ``major`` and ``minor``; Pilothouse's own components recognise this server by
the build part after ``+``."""

from __future__ import annotations

import platform
import sys

import pilothouse
from pilothouse.apiserver.server.messages import Response
from pilothouse.apiserver.storage.codec import dump
from pilothouse.base.architectures import go_architecture

MINOR = "32"
PATHS = frozenset({"/version", "/version/"})


def git_version(version: str = pilothouse.__version__) -> str:
    """``v1.32.0+pilothouse0.1.0``: a valid semantic version, whatever our own version is."""
    build = "".join(character if character.isalnum() or character in ".-" else "." for character in version)
    return f"v1.{MINOR}.0+pilothouse{build}"


def describe() -> dict[str, str]:
    machine = go_architecture(platform.machine())
    return {
        "major": "1",
        "minor": MINOR,
        "gitVersion": git_version(),
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": f"python{platform.python_version()}",
        "compiler": sys.implementation.name,
        "platform": f"{sys.platform}/{machine}",
    }


def answer() -> Response:
    return Response(200, dump(describe()))
