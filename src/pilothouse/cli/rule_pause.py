"""``pilothouse rule pause`` and ``resume``."""

from __future__ import annotations

from pathlib import Path

import click

from pilothouse.base.terminal_text import escape_control_characters
from pilothouse.cli.error_output import errors_in_one_line
from pilothouse.cli.flags import several
from pilothouse.cli.server_access import access, server_flags
from pilothouse.cli.waiting import waiting_for

_scope = several(
    click.argument("rule", default=""),
    click.option("-n", "--namespace", default="", help="All rules, for the objects of this namespace."),
    click.option("--all", "everything", is_flag=True, help="All rules, for all objects."),
)


@click.command("pause")
@_scope
@server_flags
def pause(rule: str, namespace: str, everything: bool, kubeconfig: Path | None, data: Path | None) -> None:
    """Pause RULE, all rules in a namespace, or all rules: values are still read, but nothing is written.

    What an action has begun with the storage goes on. The pause stays until it is resumed.
    """
    what = _set(rule, namespace, everything, kubeconfig, data, paused=True)
    click.echo(f"{what} paused: no action begins until it is resumed")


@click.command("resume")
@_scope
@server_flags
def resume(rule: str, namespace: str, everything: bool, kubeconfig: Path | None, data: Path | None) -> None:
    """Resume RULE, the rules in a namespace, or all rules. Another pause that applies stays."""
    what = _set(rule, namespace, everything, kubeconfig, data, paused=False)
    click.echo(f"{what} resumed")


def _set(
    rule: str, namespace: str, everything: bool, kubeconfig: Path | None, data: Path | None, *, paused: bool
) -> str:
    import asyncio

    from pilothouse.app.rule_pauses import set_pause

    if [bool(rule), bool(namespace), everything].count(True) != 1:
        raise click.UsageError("give one of RULE, --namespace and --all")
    reached = access(kubeconfig, data)
    with waiting_for(reached.url), errors_in_one_line(reached.url):
        done = asyncio.run(set_pause(reached, rule=rule, namespace=namespace, paused=paused))
    return escape_control_characters(done)
