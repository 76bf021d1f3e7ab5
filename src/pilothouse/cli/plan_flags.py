"""The flags by which a controller-manager carries out plans, which a preview takes too; and those of its
simulation."""

from __future__ import annotations

from typing import Final

import click

from pilothouse.cli.flags import several
from pilothouse.cli.parameters import Choices, Duration, DurationRange

plan_flags: Final = several(
    click.option(
        "--ready-path",
        default="/readyz",
        show_default=True,
        help="The path at which update plans ask every ControlNode whether it is ready.",
    ),
    click.option(
        "--ready-scheme",
        type=click.Choice(["https", "http"]),
        default="https",
        show_default=True,
        help="The protocol of that request.",
    ),
    click.option(
        "--exclude-from-plans",
        type=Choices("controller", "worker"),
        default="",
        help="Kinds of machines that no Plan may update, separated by commas: controller, worker.",
    ),
)

simulation_flags: Final = several(
    click.option(
        "--seeds",
        type=click.IntRange(min=1),
        default=20,
        show_default=True,
        help="How many runs are simulated.",
    ),
    click.option(
        "--time-limit",
        type=Duration(minimum=1.0),
        default="1m",
        show_default=True,
        help="How long the simulation may take; then the runs that have ended are shown.",
    ),
    click.option(
        "--download",
        type=DurationRange(),
        default="10s-1m",
        show_default=True,
        help="How long a machine is assumed to download.",
    ),
    click.option(
        "--restart",
        type=DurationRange(),
        default="5s-30s",
        show_default=True,
        help="How long a machine is assumed to be away when it is updated.",
    ),
    click.option(
        "--pod-start",
        type=DurationRange(),
        default="5s-30s",
        show_default=True,
        help="How long a pod is assumed to take until it is Ready.",
    ),
    click.option(
        "--pod-stop",
        type=DurationRange(),
        default="1s-10s",
        show_default=True,
        help="How long a pod is assumed to take to end.",
    ),
    click.option(
        "--failing",
        type=click.IntRange(0, 100),
        default=0,
        show_default=True,
        help="Percentage of downloads, and of new versions, that are assumed to fail.",
    ),
)
