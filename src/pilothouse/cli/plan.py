"""``pilothouse plan``: look at the plan that is carried out, hold it, end it, and preview another."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from pilothouse.base.terminal_text import escape_control_characters
from pilothouse.cli.error_output import errors_in_one_line
from pilothouse.cli.parameters import FILE, Choices
from pilothouse.cli.server_access import access, server_flags
from pilothouse.cli.waiting import waiting_for

if TYPE_CHECKING:
    from pilothouse.api.objects import Object


@click.group()
def plan() -> None:
    """Look at the plan that updates machines, hold it, end it, and preview another."""


@plan.command("status")
@click.option("-w", "--watch", is_flag=True, help="Follow it until its run has ended.")
@server_flags
def status(watch: bool, kubeconfig: Path | None, data: Path | None) -> None:
    """Show how far the plan is, what it waits for, and its machines.

    The exit code is 1 if there is no plan named autopilot; with --watch also if its run did not complete.
    """
    import asyncio

    from pilothouse.app.plan_commands import follow_plan, read_plan

    reached = access(kubeconfig, data)
    if watch:
        with errors_in_one_line(reached.url):
            last = asyncio.run(follow_plan(reached, _show))
        if last is None or last.status.get("state") != "Completed":
            raise SystemExit(1)
        return
    with waiting_for(reached.url), errors_in_one_line(reached.url):
        found = asyncio.run(read_plan(reached))
    _show(found)
    if found is None:
        raise SystemExit(1)


@plan.command("pause")
@server_flags
def pause(kubeconfig: Path | None, data: Path | None) -> None:
    """Begin no further machine; those in progress finish."""
    _set_rollout("paused: machines in progress finish, no other begins", kubeconfig, data, paused=True)


@plan.command("resume")
@server_flags
def resume(kubeconfig: Path | None, data: Path | None) -> None:
    """Go on with a plan that was paused."""
    _set_rollout("resumed", kubeconfig, data, paused=False)


@plan.command("abort")
@server_flags
def abort(kubeconfig: Path | None, data: Path | None) -> None:
    """End the run; machines in progress finish."""
    _set_rollout("aborted: it ends when machines in progress have finished", kubeconfig, data, aborted=True)


@plan.command("preview")
@click.argument("file", type=FILE)
@click.option(
    "--exclude-from-plans",
    type=Choices("controller", "worker"),
    default="",
    help="As given to the controller-manager: kinds of machines that no Plan may update.",
)
@server_flags
def preview(
    file: Path, exclude_from_plans: frozenset[str], kubeconfig: Path | None, data: Path | None
) -> None:
    """Show what the plan in FILE would do now: which machines in which order, and what would hold it.

    Nothing is stored. The exit code is 1 if the plan would end without updating anything.
    """
    import asyncio

    from pilothouse.app.plan_preview import NoPlanInFile, preview_file

    reached = access(kubeconfig, data)
    try:
        with waiting_for(reached.url), errors_in_one_line(reached.url):
            found = asyncio.run(preview_file(reached, file.read_bytes(), exclude_from_plans))
    except NoPlanInFile as problem:
        raise click.ClickException(f"{file}: {problem}") from None
    if found.description:
        _print(f"It would end as {found.state}: {found.description}")
        raise SystemExit(1)
    for number, step in enumerate(found.steps, 1):
        _print(f"{number}. {step.title}: {len(step.machines)} machines")
        _print(f"   {', '.join(step.machines)}")
    if not found.steps:
        _print("It has no targets, and would be Completed at once.")
    for text in found.obstacles:
        _print(f"Held now: {text}")


def _set_rollout(said: str, kubeconfig: Path | None, data: Path | None, **fields: bool) -> None:
    import asyncio

    from pilothouse.app.plan_commands import set_rollout

    reached = access(kubeconfig, data)
    with waiting_for(reached.url), errors_in_one_line(reached.url):
        changed = asyncio.run(set_rollout(reached, **fields))
    _print(f"plan {changed.name} {said}")


def _show(found: Object | None) -> None:
    import time

    from pilothouse.app.plan_report import plan_lines

    if found is None:
        _print("There is no plan named autopilot.")
        return
    for line in plan_lines(found, now=time.time()):
        _print(line)


def _print(text: str) -> None:
    click.echo(escape_control_characters(text))
