from __future__ import annotations

import re
from pathlib import Path

import pytest
from click import Command

from pilothouse.app.controller_list import DEFAULT_TIMEOUTS
from pilothouse.base.duration import parse_duration
from pilothouse.cli.apiserver import apiserver
from pilothouse.cli.controller_manager import controller_manager
from pilothouse.cli.node import node
from pilothouse.cli.up import up

DOCS = Path(__file__).parents[2] / "docs"
FLAG = re.compile(r"--[a-z][a-z-]+[a-z]")


@pytest.mark.parametrize(
    ("page", "heading", "command"),
    [
        ("api-server.md", "Flags", apiserver),
        ("controller-manager.md", "Flags", controller_manager),
        ("joining.md", "Running the node", node),
        ("up.md", "Flags", up),
    ],
)
def test_the_page_of_a_command_names_each_of_its_flags_and_no_others(
    page: str, heading: str, command: Command
) -> None:
    section = (DOCS / page).read_text().partition(f"## {heading}")[2].partition("\n## ")[0]
    table = "\n".join(line for line in section.splitlines() if line.startswith("|")) or section
    named = set(FLAG.findall(table)) - {"--help"}
    options = (
        (*option.opts, *option.secondary_opts)
        for option in command.params
        if not getattr(option, "hidden", False)
    )
    real = {name for names in options for name in names if name.startswith("--")}
    assert named == real - {"--verbose"}


def test_periods_of_controllers_default_to_their_own() -> None:
    defaults = {option.name: option.default for option in controller_manager.params}
    assert parse_duration(str(defaults["pilot_collection_period"])) == DEFAULT_TIMEOUTS.pilot_without_pod
    assert parse_duration(str(defaults["pilot_silence_period"])) == DEFAULT_TIMEOUTS.silent_pilot
