"""``pilothouse node``: the agent on a machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from pilothouse.cli.internal_flags import lifeline_flag, listen_fd_flag, socket_store_flag
from pilothouse.cli.long_running import log_to_stderr, verbose_flag
from pilothouse.cli.node_flags import node_flags, run_node
from pilothouse.cli.server_access import kubeconfig_flag
from pilothouse.cli.store_flags import data_flag


@click.command()
@kubeconfig_flag("node.kubeconfig in the data folder, which `pilothouse join` writes")
@data_flag("Folder for the node's identity, its pods, images and volumes.")
@click.option(
    "--name", default="", help="Name of the node. Default: the name it joined under, or the host name."
)
@node_flags
@lifeline_flag
@listen_fd_flag
@socket_store_flag
@verbose_flag("Log more; twice for much more.")
def node(verbose: int, kubeconfig: Path | None, lifeline: int | None, **flags: Any) -> None:
    """Run the node agent: the pods that are bound to this machine run here, as processes.

    Prints one line when the Node is ready. SIGTERM stops the agent; pods keep running, and the next agent
    takes them over.
    """
    log_to_stderr(verbose)
    from pilothouse.app import memory_tuning

    memory_tuning.start_quietly()
    run_node(kubeconfig, lifeline, flags)
