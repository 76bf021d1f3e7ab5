"""The ``pilothouse`` command: parses flags and prints. Each command imports the components that it needs."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import click

import pilothouse
from pilothouse.cli.apiserver import apiserver
from pilothouse.cli.audit import audit
from pilothouse.cli.backup import backup, restore
from pilothouse.cli.certs import certs
from pilothouse.cli.controller_manager import controller_manager
from pilothouse.cli.crds import crds
from pilothouse.cli.disruptions import disruptions
from pilothouse.cli.encryption import encryption
from pilothouse.cli.image import image
from pilothouse.cli.install_service import install_service
from pilothouse.cli.join import join
from pilothouse.cli.leave import leave
from pilothouse.cli.node import node
from pilothouse.cli.parameters import FILE
from pilothouse.cli.pilot import pilot
from pilothouse.cli.plan import plan
from pilothouse.cli.policy import policy
from pilothouse.cli.prometheus import prometheus_config
from pilothouse.cli.rule import rule
from pilothouse.cli.status import status
from pilothouse.cli.token import token
from pilothouse.cli.up import down, up
from pilothouse.cli.updates import updates
from pilothouse.cli.why import why

_HELP = {"help_option_names": ["-h", "--help"]}
_INTERRUPTED = 128 + signal.SIGINT


class _Main(click.Group):
    """Ctrl-C ends a command without a word: click's "Aborted!" reads as if the plan had been aborted."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            click.echo(err=True)  # Ends the line on which the terminal shows ^C.
            raise SystemExit(_INTERRUPTED) from None


@click.group(cls=_Main, context_settings=_HELP)
@click.version_option(pilothouse.__version__, message="pilothouse %(version)s", help="Print the version.")
@click.option(
    "-f",
    "--config",
    type=FILE,
    help="Configuration file of metrics providers, for policy test. Environment: CONFIG_FILE.",
)
def main(config: Path | None) -> None:
    """A control plane for stateful applications behind one Kubernetes-style API."""


@main.command()
def version() -> None:
    """Print the version."""
    click.echo(f"pilothouse {pilothouse.__version__}")


for command in (
    apiserver,
    audit,
    backup,
    certs,
    controller_manager,
    crds,
    disruptions,
    down,
    encryption,
    image,
    install_service,
    join,
    leave,
    node,
    pilot,
    plan,
    policy,
    prometheus_config,
    restore,
    rule,
    status,
    token,
    up,
    updates,
    why,
):
    main.add_command(command)
