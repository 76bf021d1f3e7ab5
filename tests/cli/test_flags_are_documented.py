from __future__ import annotations

import re
from pathlib import Path

import pytest
from click import Command

from pilothouse.cli.apiserver import apiserver
from pilothouse.cli.controller_manager import controller_manager

DOCS = Path(__file__).parents[2] / "docs"
FLAG = re.compile(r"--[a-z][a-z-]+[a-z]")


@pytest.mark.parametrize(
    ("page", "command"), [("api-server.md", apiserver), ("controller-manager.md", controller_manager)]
)
def test_the_page_of_a_command_names_each_of_its_flags_and_no_others(page: str, command: Command) -> None:
    table = (DOCS / page).read_text().partition("## Flags")[2].partition("\n## ")[0]
    named = set(FLAG.findall(table)) - {"--help"}
    options = (
        (*option.opts, *option.secondary_opts)
        for option in command.params
        if not getattr(option, "hidden", False)
    )
    real = {name for names in options for name in names if name.startswith("--")}
    assert named == real - {"--verbose"}
