"""``pilothouse pilot``: the process beside a database. It is what a container of a pod with a Pilot starts."""

from __future__ import annotations

import os
import shlex
import socket
import sys
from pathlib import Path
from typing import Any

import click

from pilothouse.cli.flags import several
from pilothouse.cli.long_running import log_to_stderr, verbose_flag
from pilothouse.cli.parameters import Duration
from pilothouse.cli.server_access import kubeconfig_flag, own_access

_DATA = {"elasticsearch": "/usr/share/elasticsearch/data", "redis": "/data"}
"""Where the data of each application is, unless it is said otherwise."""


@click.group()
def pilot() -> None:
    """Run a database: wait for the Pilot of its name, start it as told, look after it, report."""


_flags = several(
    click.option("--name", envvar="POD_NAME", help="Of the Pilot; else POD_NAME, or the name of the host."),
    click.option("--namespace", envvar="POD_NAMESPACE", help="Else POD_NAMESPACE, or the account's own."),
    click.option("--address", envvar="POD_IP", help="Where to listen; else POD_IP, or the host's own."),
    click.option("--data", type=click.Path(path_type=Path), help="The folder of the database's data."),
    kubeconfig_flag("the pod's own account, or KUBECONFIG"),
    click.option("--ready-port", type=int, default=12001, show_default=True, help="Answers readiness."),
    click.option("--live-port", type=int, default=12000, show_default=True, help="Answers liveness."),
    click.option(
        "--stop-grace",
        type=Duration(),
        default="25m",
        show_default=True,
        help="How long the database may take to stop before it is killed.",
    ),
    verbose_flag("Log more."),
)


@pilot.command()
@_flags
def elasticsearch(**flags: Any) -> None:
    """Run a node of Elasticsearch."""
    _run("elasticsearch", flags)


@pilot.command()
@_flags
def redis(**flags: Any) -> None:
    """Run a Redis server."""
    _run("redis", flags)


@pilot.command("run")
@click.argument("application")
@_flags
def run_other(application: str, **flags: Any) -> None:
    """Run a database whose driver another package brings."""
    _run(application, flags)


@pilot.command()
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
def install(folder: Path) -> None:
    """Put a program ``pilothouse`` into a folder that starts this very installation, for a container that sees its files."""
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "pilothouse"
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -P -m pilothouse "$@"\n')
    program.chmod(0o755)
    click.echo(f"installed {program}")


def _run(application: str, flags: dict[str, Any]) -> None:
    from pilothouse.app import memory_tuning

    memory_tuning.start_quietly()
    import asyncio

    from pilothouse.app.pilot import PilotOptions, run
    from pilothouse.client.access import AccessError
    from pilothouse.pilot.driver import InstanceEnvironment
    from pilothouse.pilot.driver_registry import UnknownApplication
    from pilothouse.pilot.termination_log import write_termination_message

    # What a database does is told without being asked for.
    log_to_stderr(flags["verbose"] + 1)
    host = socket.gethostname()
    data = flags["data"] or (Path(_DATA[application]) if application in _DATA else None)
    if data is None:
        raise click.UsageError("--data: say where the data of the database is")
    try:
        access = own_access(flags["kubeconfig"], Path("/etc/pilothouse/pilot.kubeconfig"))
        options = PilotOptions(
            application=application,
            access=access,
            place=InstanceEnvironment(
                name=flags["name"] or host,
                namespace=flags["namespace"] or access.namespace or "default",
                address=flags["address"] or socket.gethostbyname(host),
                folder=data,
                environ=dict(os.environ),
            ),
            ready_port=flags["ready_port"],
            live_port=flags["live_port"],
            grace=flags["stop_grace"],
        )
        code = asyncio.run(run(options))
    except (AccessError, UnknownApplication, OSError) as problem:
        write_termination_message(str(problem))
        raise click.ClickException(str(problem)) from None
    raise SystemExit(code)
