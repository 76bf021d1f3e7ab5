"""``--lifeline``: the flag by which ``up`` holds on to the roles that it runs. People have no use for it."""

from __future__ import annotations

import click

from pilothouse.cli.flags import Command


def lifeline_flag(command: Command) -> Command:
    """A descriptor whose other end is held by whoever looks after the process: see ``app.roles``."""
    return click.option("--lifeline", type=int, default=None, hidden=True)(command)
