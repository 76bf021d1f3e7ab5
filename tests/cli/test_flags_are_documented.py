from __future__ import annotations

import re
from pathlib import Path

from pilothouse.cli.apiserver import apiserver

DOCS = Path(__file__).parents[2] / "docs"
FLAG = re.compile(r"--[a-z][a-z-]+[a-z]")


def test_the_page_of_the_server_names_each_of_its_flags_and_no_others() -> None:
    table = (DOCS / "api-server.md").read_text().partition("## Flags")[2].partition("\n## ")[0]
    named = set(FLAG.findall(table)) - {"--help"}
    real = {name for option in apiserver.params for name in option.opts if name.startswith("--")}
    assert named == real - {"--verbose"}
