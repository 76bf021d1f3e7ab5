"""``pilothouse leave``: remove this machine from the control plane that it joined."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from pilothouse.app.options import StartError
from pilothouse.app.plane_discovery import JOINED_NODE
from pilothouse.base.terminal_text import escape_control_characters
from pilothouse.cli.error_output import errors_in_one_line
from pilothouse.cli.parameters import FILE, Duration
from pilothouse.cli.plane import plane_flag


@click.command()
@plane_flag(JOINED_NODE, "Data folder that the machine joined with.")
@click.option(
    "--kubeconfig",
    type=FILE,
    help="An administrator's kubeconfig, to delete the Node too: a node may not delete itself.",
)
@click.option(
    "--timeout",
    type=Duration(),
    default="5m",
    show_default=True,
    help="How long pods may take to be evicted.",
)
@click.option(
    "--force",
    is_flag=True,
    help="Leave even if the API server can't be reached, or pods were not evicted in time; they are stopped "
    "here.",
)
@click.option(
    "--remove-volumes",
    is_flag=True,
    help="Delete the volumes in the data folder and their data. Volumes in folders of --tier stay.",
)
@click.option("--remove-images", is_flag=True, help="Remove the images that were imported here.")
def leave(data: Path, kubeconfig: Path | None, timeout: float, **flags: Any) -> None:
    """Remove this machine from the control plane that it joined.

    Its pods are evicted, as by `kubectl drain`, the agent is stopped, and its key, certificate and kubeconfig
    are removed. Volumes stay where they are unless --remove-volumes is given; folders of --tier are never
    touched.
    """
    import asyncio

    from pilothouse.app.leave import DepartureOptions
    from pilothouse.app.leave import leave as run
    from pilothouse.client.kubeconfig import KubeconfigError, load

    try:
        admin = load(kubeconfig) if kubeconfig is not None else None
        options = DepartureOptions(data=data.absolute(), admin=admin, patience=timeout, **flags)
        with errors_in_one_line(admin.url if admin is not None else ""):
            asyncio.run(run(options, say=lambda line: click.echo(escape_control_characters(line))))
    except (StartError, KubeconfigError) as problem:
        raise click.ClickException(str(problem)) from None
