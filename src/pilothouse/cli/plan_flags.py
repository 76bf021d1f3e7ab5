"""The flags by which a controller-manager carries out plans; a preview takes the same ones."""

from __future__ import annotations

from typing import Final

import click

from pilothouse.cli.flags import several
from pilothouse.cli.parameters import Choices

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
