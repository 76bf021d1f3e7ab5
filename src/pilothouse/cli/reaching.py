"""How a command reaches its API server: the flags that say so, and what they come to.

@server_flags                                    # for a person: also the server whose data folder this is
def why(kubeconfig: Path | None, data: Path | None): access(kubeconfig, data)

@kubeconfig_flag("the pod's own account, or KUBECONFIG")      # for a part of Pilothouse: also as the pod that it runs in
def pilot(kubeconfig: Path | None): own_access(kubeconfig, Path("/etc/pilothouse/pilot.kubeconfig"))
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pilothouse.app.options import default_data
from pilothouse.cli.flags import Command, several
from pilothouse.cli.parameters import FILE

if TYPE_CHECKING:
    from pilothouse.client.access import Access

ADMIN = "admin.kubeconfig"


def kubeconfig_flag(otherwise: str) -> Callable[[Command], Command]:
    """``--kubeconfig``, and what is used without it."""
    return click.option(
        "--kubeconfig",
        type=click.Path(dir_okay=False, path_type=Path),
        help=f"How to reach the API server; else {otherwise}.",
    )


def own_access(kubeconfig: Path | None, default: Path) -> Access:
    """By the file that is named, else as the pod that this process runs in, else by a file that there is. Raises ``AccessError``."""
    from pilothouse.client import in_cluster
    from pilothouse.client.kubeconfig import find, load

    if kubeconfig is None and in_cluster.is_available(os.environ):
        return in_cluster.load(os.environ)
    return load(find(kubeconfig, default))


admin_flag = click.option(
    "--kubeconfig",
    type=FILE,
    help="How to reach the server; else KUBECONFIG, ~/.kube/config, or the local server's own.",
)
server_flags = several(
    admin_flag,
    click.option(
        "--data",
        type=click.Path(path_type=Path),
        help="The server's data folder, whose admin.kubeconfig is then used.",
    ),
)
"""``--kubeconfig`` and ``--data``; read with ``access``."""


def access(kubeconfig: Path | None, data: Path | None = None) -> Access:
    """How the flags say that a server is reached. Raises ``click.ClickException``."""
    from pilothouse.client.kubeconfig import KubeconfigError, find, load

    named = kubeconfig or (data / ADMIN if data else None)
    try:
        return load(find(named, default_data() / ADMIN))
    except KubeconfigError as problem:
        raise click.ClickException(str(problem)) from None
