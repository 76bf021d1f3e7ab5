"""The systemd unit for ``pilothouse up`` or ``pilothouse node``, as a system or a user service.

    service_unit("node", ["/usr/bin/pilothouse", "node", "--data", "/var/lib/pilothouse"], user=False)

systemd stops only the main process (``KillMode=process``), which stops its pods itself or leaves them running
for its next start. So the unit has no mount namespace of its own (``ProtectSystem``, ``PrivateTmp``): the
next agent needs the volumes that one has mounted. Filters of system calls would be inherited by pods.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, Literal

ServiceRole = Literal["up", "node"]

_DESCRIPTIONS: Final = {
    "up": "Pilothouse: API server, controllers and node",
    "node": "Pilothouse: node agent",
}
_STOP_SECONDS: Final = {"up": 240, "node": 180}
"""More than the program itself takes to stop."""
_PLAIN: Final = re.compile(r"[-\w./:=,@+]+", re.ASCII)


def service_unit(role: ServiceRole, command: Sequence[str], *, user: bool) -> str:
    """The unit file's content."""
    hardening = [] if user else ["CapabilityBoundingSet=~CAP_SYS_MODULE CAP_SYS_BOOT CAP_SYS_RAWIO"]
    lines = [
        "[Unit]",
        f"Description={_DESCRIPTIONS[role]}",
        *([] if user else ["Wants=network-online.target", "After=network-online.target"]),
        "",
        "[Service]",
        "Type=exec",
        f"ExecStart={' '.join(map(_quoted, command))}",
        "# A requested stop is not a failure: after `pilothouse down` it stays down.",
        "Restart=on-failure",
        "RestartSec=5s",
        "# It stops its pods itself, or leaves them running for its next start.",
        "KillMode=process",
        f"TimeoutStopSec={_STOP_SECONDS[role]}s",
        "# The limits of pods are control groups below its own.",
        "Delegate=yes",
        "TasksMax=infinity",
        *([] if user else ["LimitNOFILE=1048576", "LimitNPROC=infinity"]),
        "UMask=0022",
        *hardening,
        "",
        "[Install]",
        f"WantedBy={'default.target' if user else 'multi-user.target'}",
    ]
    return "\n".join(lines) + "\n"


def _quoted(word: str) -> str:
    """An argument of a command line, quoted for systemd."""
    if _PLAIN.fullmatch(word):
        return word
    if any(ord(each) < 32 or ord(each) == 127 for each in word):
        raise ValueError(f"{word!r} has control characters, which a unit can't have")
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{escaped}"'


def unit_file(name: str, *, user: bool, config_home: str = "") -> Path:
    """Where systemd looks for it."""
    if not user:
        return Path("/etc/systemd/system") / f"{name}.service"
    home = Path(config_home) if config_home.startswith("/") else Path.home() / ".config"
    return home / "systemd" / "user" / f"{name}.service"


def changeable_by_others(paths: Iterable[Path]) -> list[Path]:
    """The paths that users other than root could replace, directly or through a parent folder."""
    found = []
    for path in paths:
        real = path.resolve()
        if any(_is_open(each) for each in (real, *real.parents)):
            found.append(path)
    return found


def _is_open(path: Path) -> bool:
    try:
        found = os.lstat(path)
    except OSError:
        return False
    # In a sticky folder users can't remove the files of others.
    shared = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not found.st_mode & stat.S_ISVTX
    return found.st_uid != 0 or bool(shared)
