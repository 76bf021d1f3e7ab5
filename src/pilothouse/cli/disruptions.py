"""``pilothouse disruptions``: which disruption budgets allow what, and who holds them."""

from __future__ import annotations

from pathlib import Path

import click

from pilothouse.cli.error_output import errors_in_one_line
from pilothouse.cli.server_access import access, server_flags
from pilothouse.cli.waiting import waiting_for


@click.command()
@click.option("-n", "--namespace", default="", help="Only this namespace. Default: all namespaces.")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Output format.",
)
@server_flags
def disruptions(namespace: str, output: str, kubeconfig: Path | None, data: Path | None) -> None:
    """Show the disruption budgets, what each allows now, and the pods that count against it: who takes them
    down, why, and since when.

    pilothouse disruptions -n shop
    """
    reached = access(kubeconfig, data)

    import asyncio

    import msgspec

    from pilothouse.app.disruption_overview import report_disruptions, show_disruptions

    with waiting_for(reached.url), errors_in_one_line(reached.url):
        found = asyncio.run(report_disruptions(reached, namespace))
    if output == "json":
        click.echo(msgspec.json.format(msgspec.json.encode(found)))
    else:
        click.echo(show_disruptions(found))
