"""The ``pilothouse`` command: parses flags, prints, never decides. Components are imported inside their own command."""

from __future__ import annotations

import click

import pilothouse
from pilothouse.cli.apiserver import apiserver
from pilothouse.cli.audit import audit

_HELP = {"help_option_names": ["-h", "--help"]}


@click.group(context_settings=_HELP)
def main() -> None:
    """A control plane for stateful applications behind one Kubernetes-style API."""


@main.command()
def version() -> None:
    """Print the version."""
    click.echo(f"pilothouse {pilothouse.__version__}")


main.add_command(apiserver)
main.add_command(audit)
