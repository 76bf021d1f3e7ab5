"""``--data`` of commands that use an existing control plane: by default they find it, and print which one.

@plane_flag(NODE, "The data folder of the node.")
def list_(data: Path): ...
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pilothouse.app.plane_discovery import VARIABLE, NoPlane, WantedPlane, find
from pilothouse.base.terminal_text import escape_control_characters
from pilothouse.cli.flags import Command
from pilothouse.cli.parameters import DataPath

if TYPE_CHECKING:
    from pilothouse.app.plane_discovery import FoundPlane


def plane_flag(wanted: WantedPlane, text: str) -> Callable[[Command], Command]:
    """``--data``, with a help text; the folder that is found without it."""

    def choose(ctx: click.Context, _: click.Parameter, named: Path | None) -> Path | None:
        if named is not None or ctx.resilient_parsing:
            return named
        try:
            found = find(wanted)
        except NoPlane as problem:
            raise click.ClickException(escape_control_characters(str(problem))) from None
        announce(found)
        return found.data

    return click.option(
        "--data",
        type=DataPath(),
        callback=choose,
        show_default=f"{VARIABLE}, else that of the running node or control plane",
        help=text,
    )


def announce(found: FoundPlane) -> None:
    """Say which folder is used, beside the output."""
    idle = "" if found.running else "; nothing is known to run there"
    click.echo(escape_control_characters(f"using {found.data}, {found.origin}{idle}"), err=True)
