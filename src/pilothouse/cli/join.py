"""``pilothouse join``: make this machine a node of a control plane, and run it."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any, Final

import click

from pilothouse.app.options import StartError
from pilothouse.cli.error_output import errors_in_one_line
from pilothouse.cli.long_running import log_to_stderr, verbose_flag
from pilothouse.cli.node_flags import node_flags, run_node
from pilothouse.cli.store_flags import data_flag

VARIABLE: Final = "PILOTHOUSE_TOKEN"
_LONGEST: Final = 2**16


@click.command()
@click.argument("token", default="")
@click.option(
    "--token-file",
    default="",
    metavar="FILE",
    help="File with TOKEN, which other users of this machine could see on the command line; - for standard "
    "input.",
)
@data_flag("Folder for the node's key and certificate, its pods, images and volumes.")
@click.option("--name", default="", help="Name of the node. Default: the host name.")
@click.option(
    "--no-run",
    is_flag=True,
    help="Get the certificate and exit; `pilothouse node` runs the node later.",
)
@node_flags
@verbose_flag("Log more; twice for much more.")
def join(
    token: str, token_file: str, data: Path, name: str, no_run: bool, verbose: int, **flags: Any
) -> None:
    """Join this machine to the control plane that TOKEN is for, and run the node until it is stopped.

    TOKEN is printed by `pilothouse token create` and valid for one machine; - reads it from standard input.
    By default it is read from --token-file or the variable PILOTHOUSE_TOKEN. Prints one line when the Node is
    ready. Later `pilothouse node` runs it, with the same flags except the token; it renews its certificate by
    itself.
    """
    log_to_stderr(verbose)
    import asyncio

    from pilothouse.app.data_folder import DataFolder
    from pilothouse.app.node_names import check_node_name, default_node_name
    from pilothouse.base.clock import SystemClock
    from pilothouse.client.join_token import JoinToken, JoinTokenError
    from pilothouse.node.machine.bootstrap import join as join_as
    from pilothouse.node.machine.node_credentials import NodeCredentials

    try:
        parsed = JoinToken.parse(_read_token(token, token_file))
        chosen = check_node_name(name or default_node_name())
        identity = NodeCredentials(DataFolder.open(data.absolute()).path)
    except (JoinTokenError, StartError) as problem:
        raise click.ClickException(str(problem)) from None
    if identity.kubeconfig_file.exists():
        raise click.ClickException(
            f"{identity.kubeconfig_file} exists already: this machine is a node. `pilothouse node` runs it; "
            "to join again, remove that file first"
        )
    click.echo(f"asking {' or '.join(parsed.urls)} to join as node {chosen} …", err=True)
    with errors_in_one_line(parsed.url):
        asyncio.run(join_as(parsed, chosen, identity, SystemClock()))
    later = "run it with:" if no_run else "it runs now; from the next start on, run it with:"
    click.echo(f"this machine is now node {chosen} of {parsed.url}; {later}")
    click.echo(f"  pilothouse node --data {identity.folder}")
    if not no_run:
        run_node(None, None, {**flags, "data": data, "name": chosen})


def _read_token(given: str, file: str) -> str:
    """The token, from where it was put. Raises ``click.ClickException``."""
    if given and file:
        raise click.UsageError("give TOKEN or --token-file, not both")
    from_environment = os.environ.pop(VARIABLE, "")  # Child processes must not inherit it.
    if "-" in (given, file):
        return sys.stdin.read(_LONGEST).strip()
    if file:
        try:
            with open(file) as opened:
                return opened.read(_LONGEST).strip()
        except (OSError, UnicodeDecodeError) as problem:
            why = problem.strerror if isinstance(problem, OSError) else "it is not text"
            raise click.ClickException(f"--token-file {file} can't be read: {why}") from None
    if given:
        click.echo(
            "other users of this machine can see TOKEN on the command line while it joins; to hide it, use "
            f"--token-file FILE, - for standard input, or {VARIABLE} in the environment",
            err=True,
        )
        return given
    if from_environment:
        return from_environment.strip()
    raise click.UsageError(
        f"there is no token: give TOKEN, --token-file FILE, - for standard input, or {VARIABLE} in the "
        "environment; `pilothouse token create` prints one"
    )
