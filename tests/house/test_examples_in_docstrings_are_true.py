"""Every example in a docstring or a page is one that a reader could type today."""

from __future__ import annotations

import doctest
import inspect
from pathlib import Path
from types import ModuleType

import pytest
from tests.kit.docstring_examples import (
    Known,
    examples_of,
    examples_of_page,
    known_names,
    load_modules,
    problems,
)

import pilothouse


@pytest.fixture(scope="module")
def modules() -> list[ModuleType]:
    return load_modules(pilothouse)


@pytest.fixture(scope="module")
def known(modules: list[ModuleType]) -> Known:
    return known_names(modules)


def test_examples_name_what_exists_and_call_it_as_it_is(modules: list[ModuleType], known: Known) -> None:
    examples = [example for module in modules for example in examples_of(module)]
    assert len(examples) > 480, "those at the margin of a docstring count too"
    assert [problem for example in examples for problem in problems(example, known)] == []


def test_examples_in_pages_do_so_too(known: Known) -> None:
    pages = (Path(__file__).parents[2] / "docs").rglob("*.md")
    examples = [example for page in pages for example in examples_of_page(pilothouse, page)]
    assert len(examples) > 5
    assert [problem for example in examples for problem in problems(example, known)] == []


def test_examples_with_a_prompt_print_what_they_show(modules: list[ModuleType]) -> None:
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    # Looking for examples takes doctest longer than running them.
    for module in (each for each in modules if ">>> " in inspect.getsource(each)):
        for example in doctest.DocTestFinder(exclude_empty=True).find(module):
            runner.run(example)
    assert runner.tries > 0
    assert runner.failures == 0
