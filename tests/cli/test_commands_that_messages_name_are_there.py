"""Every command of ours that a message names is one that there is, with the flags that it is named with."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

import pilothouse
from pilothouse.cli import main

ROOT = Path(pilothouse.__file__).parent
COMMAND = re.compile(r"\bpilothouse ([a-z][^;`\n]*)")
NO_COMMANDS = {"for", "is", "that", "where"}
"""Words that follow the name of the project in sentences."""


def texts(file: Path) -> Iterator[str]:
    """What a module may say, without its docstrings; X stands for what is put in."""
    tree = ast.parse(file.read_text())
    bare = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    inside = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "X" for part in node.values)
        elif (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and not {id(node)} & (bare | inside)
        ):
            yield node.value


def named() -> list[tuple[str, str]]:
    found = {
        (str(file.relative_to(ROOT)), match[1])
        for file in ROOT.rglob("*.py")
        for text in texts(file)
        for match in COMMAND.finditer(text)
    }
    return sorted(each for each in found if each[1].split()[0] not in NO_COMMANDS)


@pytest.mark.parametrize(("module", "words"), named())
def test_it_is_there(module: str, words: str) -> None:
    command: click.Command = main
    for word in words.split():
        if not isinstance(command, click.Group) or not re.fullmatch(r"[a-z][a-z-]*", word):
            break
        assert word in command.commands, f"there is no command {word} in `pilothouse {words}`"
        command = command.commands[word]
    flags = {flag for option in command.params for flag in (*option.opts, *option.secondary_opts)}
    asked = set(re.findall(r"(?<= )--[a-z][a-z-]*", words.partition(" | ")[0])) - {"--help"}
    assert asked <= flags, f"`pilothouse {words}`"


def test_there_are_such_messages() -> None:
    assert len(named()) > 20
