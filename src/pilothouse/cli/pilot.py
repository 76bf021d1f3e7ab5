"""``pilothouse pilot``: the process beside a database, which the container of a pod with a Pilot starts."""

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


class ApplicationCommands(click.Group):
    """One command for each application that has a driver, beside those that are defined here."""

    def list_commands(self, context: click.Context) -> list[str]:
        from pilothouse.pilot.driver_registry import driver_names

        return sorted({*super().list_commands(context), *driver_names()})

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        from pilothouse.api.applications.registry import InvalidApplication, find_application
        from pilothouse.pilot.driver_registry import driver_names

        if (found := super().get_command(context, name)) is not None or name not in driver_names():
            return found
        try:
            summary = find_application(name).summary
        except InvalidApplication as problem:
            raise click.ClickException(str(problem)) from None

        @click.command(name, help=f"Run {summary or name}.")
        @_flags
        def run(**flags: Any) -> None:
            _run(name, flags)

        return run


@click.group(cls=ApplicationCommands)
def pilot() -> None:
    """Run a database as its Pilot object specifies, and report its state in the Pilot's status."""


_flags = several(
    click.option("--name", envvar="POD_NAME", help="Name of the Pilot. Default: POD_NAME, or the host name."),
    click.option(
        "--namespace",
        envvar="POD_NAMESPACE",
        help="Namespace of the Pilot. Default: POD_NAMESPACE, or the account's.",
    ),
    click.option(
        "--address",
        envvar="POD_IP",
        help="Address to listen on. Default: POD_IP, or the address of the host name.",
    ),
    click.option(
        "--data",
        type=click.Path(path_type=Path),
        help="Data folder of the database. Default: the application's own.",
    ),
    kubeconfig_flag("the pod's own account, or KUBECONFIG"),
    click.option(
        "--ready-port", type=int, default=12001, show_default=True, help="Port of the readiness probe."
    ),
    click.option(
        "--live-port", type=int, default=12000, show_default=True, help="Port of the liveness probe."
    ),
    click.option(
        "--stop-grace",
        type=Duration(),
        default="25m",
        show_default=True,
        help="How long the database may take to stop before it is killed.",
    ),
    verbose_flag("Log more."),
)


@pilot.command("run")
@click.argument("application")
@_flags
def run_application(application: str, **flags: Any) -> None:
    """Run APPLICATION, which may be one of another package."""
    _run(application, flags)


@pilot.command()
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
def install(folder: Path) -> None:
    """Write a program ``pilothouse`` to FOLDER that starts this installation.

    For a container that sees the files of this installation.
    """
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "pilothouse"
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -P -m pilothouse "$@"\n')
    program.chmod(0o755)
    click.echo(f"installed {program}")


def _run(application: str, flags: dict[str, Any]) -> None:
    from pilothouse.app import memory_tuning

    memory_tuning.start_quietly()
    import asyncio

    from pilothouse.api.applications.registry import InvalidApplication, find_application
    from pilothouse.app.pilot import PilotOptions, run
    from pilothouse.client.access import AccessError
    from pilothouse.pilot.driver import InstanceEnvironment
    from pilothouse.pilot.driver_registry import UnknownApplication
    from pilothouse.pilot.termination_log import write_termination_message

    # Starts and stops of the database are logged by default.
    log_to_stderr(flags["verbose"] + 1)
    host = socket.gethostname()
    try:
        data = flags["data"] or find_application(application).data_folder
        if not data:
            raise click.UsageError(f"--data is required: {application} has no default data folder")
        access = own_access(flags["kubeconfig"], Path("/etc/pilothouse/pilot.kubeconfig"))
        options = PilotOptions(
            application=application,
            access=access,
            instance=InstanceEnvironment(
                name=flags["name"] or host,
                namespace=flags["namespace"] or access.namespace or "default",
                address=flags["address"] or socket.gethostbyname(host),
                folder=Path(data),
                environ=dict(os.environ),
            ),
            ready_port=flags["ready_port"],
            live_port=flags["live_port"],
            grace=flags["stop_grace"],
        )
        code = asyncio.run(run(options))
    except (AccessError, InvalidApplication, UnknownApplication, OSError) as problem:
        write_termination_message(str(problem))
        raise click.ClickException(str(problem)) from None
    raise SystemExit(code)
