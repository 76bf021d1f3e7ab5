"""How a command reaches its API server: the flags that say so, and what they come to.

@server_flags       # for a person: also the server of this data folder, or the one that runs
def why(kubeconfig: Path | None, data: Path | None): access(kubeconfig, data)

@kubeconfig_flag("the pod's own account, or KUBECONFIG")    # for a component: also as its pod
def pilot(kubeconfig: Path | None): own_access(kubeconfig, Path("/etc/pilothouse/pilot.kubeconfig"))
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pilothouse.app.plane_discovery import CONTROL_PLANE, VARIABLE, NoPlane, find, find_running
from pilothouse.base.terminal_text import escape_control_characters
from pilothouse.cli.flags import Command, several
from pilothouse.cli.parameters import FILE, DataPath
from pilothouse.cli.plane import announce

if TYPE_CHECKING:
    from pilothouse.client.access import Access

ADMIN = "admin.kubeconfig"


def kubeconfig_flag(otherwise: str) -> Callable[[Command], Command]:
    """``--kubeconfig``, and what is used without it."""
    return click.option(
        "--kubeconfig",
        type=click.Path(dir_okay=False, path_type=Path),
        help=f"Kubeconfig of the API server. Default: {otherwise}.",
    )


def own_access(kubeconfig: Path | None, default: Path) -> Access:
    """By the given file, else as the pod that this process runs in, else by an existing default file. Raises
    ``AccessError``."""
    from pilothouse.client import in_cluster
    from pilothouse.client.kubeconfig import find, load

    if kubeconfig is None and in_cluster.is_available(os.environ):
        return in_cluster.load(os.environ)
    return load(find(kubeconfig, default))


server_flags = several(
    click.option(
        "--kubeconfig",
        type=FILE,
        help=f"Kubeconfig of the server. Default: {VARIABLE}, KUBECONFIG, your running control plane, "
        "~/.kube/config, or your stopped control plane.",
    ),
    click.option(
        "--data",
        type=DataPath(),
        help="The server's data folder, whose admin.kubeconfig is used.",
    ),
)
"""``--kubeconfig`` and ``--data``; read with ``access``."""


def access(kubeconfig: Path | None, data: Path | None) -> Access:
    """The server that the flags name; without them, the one that is found, which is printed. Raises
    ``click.ClickException``."""
    from pilothouse.client.kubeconfig import KubeconfigError, load

    try:
        return load(kubeconfig or (data / ADMIN if data else _found()))
    except (KubeconfigError, NoPlane) as problem:
        raise click.ClickException(escape_control_characters(str(problem))) from None


def _found() -> Path:
    """Raises ``NoPlane``."""
    if not os.environ.get(VARIABLE):
        listed = [Path(each) for each in os.environ.get("KUBECONFIG", "").split(os.pathsep) if each]
        if (file := next((each for each in listed if each.exists()), None)) is not None:
            click.echo(escape_control_characters(f"using {file}, which KUBECONFIG names"), err=True)
            return file
        own = Path.home() / ".kube" / "config"
        if find_running(CONTROL_PLANE) is None and _belongs_to_us(own):
            click.echo(escape_control_characters(f"using {own}"), err=True)
            return own
    found = find(CONTROL_PLANE)
    announce(found)
    return found.data / ADMIN


def _belongs_to_us(file: Path) -> bool:
    """Whether it is there, and not another user's: root may have that user's home, by ``sudo``."""
    try:
        return file.stat().st_uid in (os.geteuid(), 0)
    except OSError:
        return False
