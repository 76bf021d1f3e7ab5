"""``pilothouse status``: processes, nodes and pods, as a table that follows changes."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pilothouse.app.options import StartError
from pilothouse.app.plane_discovery import UP
from pilothouse.base.terminal_text import escape_control_characters
from pilothouse.cli.plane import plane_flag

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table

    from pilothouse.app.status_report import ClusterOverview, Row

_MOST_PODS = 30
_NO_MARGIN = 10_000
_WELL = {"running", "Running", "Ready", "Succeeded"}


@click.command()
@plane_flag(UP, "Data folder of `pilothouse up`.")
@click.option(
    "--once", is_flag=True, help="Print it once and exit, as is the default if the output is not a terminal."
)
def status(data: Path, once: bool) -> None:
    """Show what `pilothouse up` runs, its nodes and its pods. At a terminal the table follows changes until
    Ctrl-C.

    The exit code is 1 if nothing is up.
    """
    from rich.console import Console
    from rich.live import Live

    from pilothouse.app.status_report import look

    console = Console()
    # Not as the console says, which takes any output for a terminal where FORCE_COLOR is set, as in many a
    # CI.
    watched = sys.stdout.isatty()
    if not watched:
        # A pipe has no width: lines are not cut.
        console = Console(width=_NO_MARGIN)
    path = data.absolute()
    try:
        seen = look(path, time.time())
        if not seen.up:
            # As it is: what it suggests is there to be copied.
            click.echo(seen.headline)
            raise SystemExit(1)
        if once or not watched:
            console.print(_shown(seen))
            return
        with Live(_shown(seen), console=console, auto_refresh=False) as live:
            while seen.up:
                time.sleep(1)
                seen = look(path, time.time())
                live.update(_shown(seen), refresh=True)
    except StartError as problem:
        raise click.ClickException(str(problem)) from None
    except KeyboardInterrupt:
        return


def _shown(seen: ClusterOverview) -> Group:
    from rich.console import Group
    from rich.text import Text

    parts: list[Text | Table] = [Text(seen.headline, style="bold" if seen.up else "")]
    if seen.roles:
        columns: Row = ("ROLE", "STATE", "PID", "AGE", "RESTARTS", "MEMORY", "LAST EXIT")
        # Where every process is the first of its kind, there is nothing to say.
        shown = len(columns) if any(row[-1] for row in seen.roles) else len(columns) - 1
        parts.append(_table(columns[:shown], tuple(row[:shown] for row in seen.roles), state=1))
    if seen.problem:
        parts.append(
            Text(f"The server does not answer: {escape_control_characters(seen.problem)}", style="red")
        )
    if seen.nodes:
        parts.append(_table(("NODE", "STATUS", "PODS", "AGE"), seen.nodes, state=1))
    if seen.pods:
        columns = ("NAMESPACE", "POD", "READY", "STATUS", "RESTARTS", "AGE", "NODE")
        parts.append(_table(columns, seen.pods[:_MOST_PODS], state=3))
    if len(seen.pods) > _MOST_PODS:
        parts.append(Text(f"… and {len(seen.pods) - _MOST_PODS} more"))
    return Group(*parts)


def _table(columns: Row, rows: tuple[Row, ...], *, state: int) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(*columns, box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="dim")
    for row in rows:
        style = "green" if row[state] in _WELL else "yellow"
        table.add_row(
            *(
                Text(escape_control_characters(cell), style=style if at == state else "")
                for at, cell in enumerate(row)
            )
        )
    return table
