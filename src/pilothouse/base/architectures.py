"""Names of processor architectures.

go_architecture("x86_64")       # "amd64"
"""

from __future__ import annotations

from typing import Final

GO_ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64"}
"""What Kubernetes, OCI and release downloads call the machine that ``uname -m`` prints."""


def go_architecture(machine: str) -> str:
    """The name by which downloads and labels know a machine; an unknown one keeps its own."""
    return GO_ARCHITECTURES.get(machine, machine)
