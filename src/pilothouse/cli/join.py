"""``pilothouse join``: a machine becomes a node of a control plane elsewhere."""

from __future__ import annotations

from pathlib import Path

import click

from pilothouse.app.options import StartError
from pilothouse.cli.failing import told_in_a_line
from pilothouse.cli.store_flags import data_flag


@click.command()
@click.argument("token")
@data_flag("Folder for the node's key and certificate, its pods, images and volumes.")
@click.option("--name", default="", help="What the node is called; else the machine's host name.")
def join(token: str, data: Path, name: str) -> None:
    """Join this machine to the control plane that TOKEN is for.

    TOKEN is printed by `pilothouse token create`, and good for one machine. Afterwards `pilothouse node` runs the node,
    which renews its certificate by itself.
    """
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
    with told_in_a_line(parsed.url):
        asyncio.run(join_as(parsed, chosen, identity, SystemClock()))
    click.echo(f"this machine is the node {chosen} of {parsed.url} now; run it with:")
    click.echo(f"  pilothouse node --data {identity.folder}")
