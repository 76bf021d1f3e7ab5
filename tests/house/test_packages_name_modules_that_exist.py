from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src"
PACKAGES = sorted((SOURCE / "pilothouse").rglob("__init__.py"))
NO_MODULES = {"dict", "ip"}
"""Backquoted words in lower case that name something else: a type, a program."""
_QUOTED = re.compile(r"(?<!`)`{1,2}([a-z_][a-z_0-9]*(?:\.[a-z_][a-z_0-9]*)*)`{1,2}(?!`)")
_LISTED = re.compile(r"^([a-z_][a-z_0-9]*(?:\.[a-z_0-9]+)*) {2,}\S", re.M)
_OTHER_DOTTED = re.compile(r"\.(io|org|ya?ml|md|json|py)$")


def names_in(docstring: str) -> Iterator[str]:
    """The modules that a docstring names: in backquotes, or as the first column of a list."""
    for name in dict.fromkeys(_QUOTED.findall(docstring) + _LISTED.findall(docstring)):
        if name not in NO_MODULES and not _OTHER_DOTTED.search(name):
            yield name


def exists(name: str, package: Path) -> bool:
    """Whether it is a module or package in this package, or in one that this one is in."""
    path = Path(*name.split("."))
    places = [package, *(above for above in package.parents if above.is_relative_to(SOURCE))]
    return any((place / path).is_dir() or (place / path).with_suffix(".py").exists() for place in places)


@pytest.mark.parametrize("file", PACKAGES, ids=lambda file: str(file.parent.relative_to(SOURCE)))
def test_modules_that_a_package_names_exist(file: Path) -> None:
    docstring = ast.get_docstring(ast.parse(file.read_text())) or ""
    missing = [name for name in names_in(docstring) if not exists(name, file.parent)]
    assert not missing, f"{file.parent.relative_to(SOURCE)} names {', '.join(missing)}"


def test_names_are_found_in_both_notations() -> None:
    text = "Reads ``a_b`` and `c.d` of ``elasticsearch.yml``.\n\nreader   reads\nwriter   writes\n"
    assert list(names_in(text)) == ["a_b", "c.d", "reader", "writer"]
    assert exists("api.navigator", SOURCE / "pilothouse")
    assert not exists("api.starships", SOURCE / "pilothouse")
