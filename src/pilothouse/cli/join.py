"""``pilothouse join``: a machine becomes a node of a control plane elsewhere, and runs it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from pilothouse.app.options import StartError
from pilothouse.cli.failing import told_in_a_line
from pilothouse.cli.node_flags import node_flags, run_node
from pilothouse.cli.staying import log_to_stderr, verbose_flag
from pilothouse.cli.store_flags import data_flag


@click.command()
@click.argument("token")
@data_flag("Folder for the node's key and certificate, its pods, images and volumes.")
@click.option("--name", default="", help="What the node is called; else the machine's host name.")
@click.option(
    "--no-run",
    is_flag=True,
    help="Get the certificate and stop there; `pilothouse node` runs the node later.",
)
@node_flags
@verbose_flag("Log more; twice for much more.")
def join(token: str, data: Path, name: str, no_run: bool, verbose: int, **flags: Any) -> None:
    """Join this machine to the control plane that TOKEN is for, and run the node until told to stop.

    TOKEN is printed by `pilothouse token create`, and good for one machine. When the Node is ready it says so in one line. From the
    next start on `pilothouse node` runs it, with the same flags but the token; it renews its certificate by itself.
    """
    log_to_stderr(verbose)
    import asyncio

    from pilothouse.app.data_folder import DataFolder
    from pilothouse.app.node_names import check_node_name, default_node_name
    from pilothouse.base.clock import SystemClock
    from pilothouse.client.join_token import JoinToken, JoinTokenError
    from pilothouse.node.identity import NodeIdentity
    from pilothouse.node.joining import join as join_as

    try:
        parsed = JoinToken.parse(token)
        chosen = check_node_name(name or default_node_name())
        identity = NodeIdentity(DataFolder.open(data.absolute()).path)
    except (JoinTokenError, StartError) as problem:
        raise click.ClickException(str(problem)) from None
    if identity.kubeconfig_file.exists():
        raise click.ClickException(
            f"{identity.kubeconfig_file} is there already: this machine is a node. `pilothouse node` runs it; to have it "
            "join anew, remove that file first"
        )
    click.echo(f"asking {' or '.join(parsed.urls)} to be its node {chosen} …", err=True)
    with told_in_a_line(parsed.url):
        asyncio.run(join_as(parsed, chosen, identity, SystemClock()))
    later = "run it with:" if no_run else "it runs here, and from its next start on with:"
    click.echo(f"this machine is the node {chosen} of {parsed.url} now; {later}")
    click.echo(f"  pilothouse node --data {identity.folder}")
    if not no_run:
        run_node(None, None, {**flags, "data": data, "name": chosen})
