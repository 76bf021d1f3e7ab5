"""``pilothouse plan``: show, pause, resume, abort and preview update plans."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pilothouse.base.plurals import counted
from pilothouse.base.terminal_text import escape_control_characters
from pilothouse.cli.error_output import errors_in_one_line
from pilothouse.cli.parameters import FILE
from pilothouse.cli.plan_flags import plan_flags, simulation_flags
from pilothouse.cli.server_access import access, server_flags
from pilothouse.cli.waiting import waiting_for

if TYPE_CHECKING:
    from pilothouse.api.objects import Object
    from pilothouse.controllers.plans.preview import PlanPreview
    from pilothouse.updates.readiness_probe import Scheme


@click.group()
def plan() -> None:
    """Show, pause, resume, abort and preview update plans."""


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
    """Pause the plan. Machines in progress finish; no other begins."""
    changed = _set_rollout(kubeconfig, data, paused=True)
    _print(f"plan {changed.name} paused: machines in progress finish, no other begins")


@plan.command("resume")
@server_flags
def resume(kubeconfig: Path | None, data: Path | None) -> None:
    """Resume a plan that was paused."""
    changed = _set_rollout(kubeconfig, data, paused=False)
    aborted = "; it is aborted, and no run starts until spec.rollout.aborted is false"
    _print(f"plan {changed.name} resumed{aborted if changed.at('spec', 'rollout', 'aborted') else ''}")


@plan.command("abort")
@server_flags
def abort(kubeconfig: Path | None, data: Path | None) -> None:
    """End the run; machines in progress finish. No run starts while spec.rollout.aborted is true."""
    from pilothouse.app.plan_commands import is_running

    changed = _set_rollout(kubeconfig, data, aborted=True)
    if is_running(changed):
        _print(f"plan {changed.name} aborted: it ends when machines in progress have finished")
    else:
        _print(
            f"plan {changed.name} aborted: no run is in progress, and none starts until "
            "spec.rollout.aborted is false"
        )


@plan.command("preview")
@click.argument("file", type=FILE)
@click.option("--simulate", is_flag=True, help="Run the plan on a copy of the state, too.")
@simulation_flags
@click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Output format.",
)
@plan_flags
@server_flags
def preview(
    file: Path,
    simulate: bool,
    seeds: int,
    time_limit: float,
    download: tuple[float, float],
    restart: tuple[float, float],
    pod_start: tuple[float, float],
    pod_stop: tuple[float, float],
    failing: int,
    output: str,
    exclude_from_plans: frozenset[str],
    ready_path: str,
    ready_scheme: Scheme,
    kubeconfig: Path | None,
    data: Path | None,
) -> None:
    """Show what the plan in FILE would do now: which machines in which order, and what would hold it.

    Nothing is stored. Give it the flags of the controller-manager. The exit code is 1 if the plan would end
    without updating anything; with --simulate also if it does not complete in every run.
    """
    import asyncio

    from pilothouse.app.plan_preview import NoPlanInFile, preview_file

    reached = access(kubeconfig, data)
    try:
        with waiting_for(reached.url), errors_in_one_line(reached.url):
            live = asyncio.run(
                preview_file(
                    reached,
                    file.read_bytes(),
                    exclude_from_plans,
                    ready_path=ready_path,
                    ready_scheme=ready_scheme,
                )
            )
    except NoPlanInFile as problem:
        raise click.ClickException(f"{file}: {problem}") from None
    found, forecast, assumptions = live.preview, None, None
    if simulate and not found.description:
        from pilothouse.app.plan_simulation import Assumptions, simulate_plan

        assumptions = Assumptions(download, restart, pod_start, pod_stop, failing / 100)
        forecast = simulate_plan(
            live.state,
            assumptions,
            seeds=seeds,
            seconds=time_limit,
            exclude=exclude_from_plans,
            progress=lambda done: _show_progress(done, seeds),
        )
        _show_progress(seeds, seeds)
    if output == "json":
        import msgspec

        whole = {"preview": found, "simulation": forecast, "assumed": assumptions}
        click.echo(msgspec.json.format(msgspec.json.encode(whole)))
    else:
        _show_preview(found)
    if forecast is not None and assumptions is not None and output != "json":
        from pilothouse.app.plan_simulation import forecast_lines

        for line in forecast_lines(forecast, assumptions):
            _print(line)
    is_good = forecast is None or all(run.state == "Completed" for run in forecast.runs)
    if found.description or not is_good:
        raise SystemExit(1)


def _show_preview(found: PlanPreview) -> None:
    if found.description:
        _print(f"It would end as {found.state}: {found.description}")
        return
    for number, step in enumerate(found.steps, 1):
        _print(f"{number}. {step.title}: {counted(len(step.machines), 'machine')}")
        _print(f"   {', '.join(step.machines)}")
    if not found.steps:
        _print("It has no targets, and would be Completed at once.")
    for text in found.obstacles:
        _print(f"Held now: {text}")
    if found.without_agent:
        _print(f"No update agent has reported from: {', '.join(found.without_agent)}")


def _show_progress(done: int, seeds: int) -> None:
    """One line beside the output, which is replaced by the next one on a terminal."""
    if sys.stderr.isatty():
        click.echo(
            "\r\033[K" if done == seeds else f"\rsimulating: run {done + 1} of {seeds}", err=True, nl=False
        )
    elif done == 0:
        click.echo(f"simulating {seeds} {'run' if seeds == 1 else 'runs'} …", err=True)


def _set_rollout(kubeconfig: Path | None, data: Path | None, **fields: bool) -> Object:
    import asyncio

    from pilothouse.app.plan_commands import set_rollout

    reached = access(kubeconfig, data)
    with waiting_for(reached.url), errors_in_one_line(reached.url):
        return asyncio.run(set_rollout(reached, **fields))


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
