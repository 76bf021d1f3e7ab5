"""The parser recurses: what would overflow the stack of the process is refused before it is parsed."""

from __future__ import annotations

import subprocess
import sys

import pytest

from pilothouse.meta.promql import LONGEST, MOST_OPERATORS, problem_of


@pytest.mark.parametrize(
    "text",
    [
        "a" + "+a" * 8000,
        "a" + " or a" * 3000,
        "(" * 8000 + "a" + ")" * 8000,
        "-" * 16000 + "a",
        'a{x="' + "\\\\" * 10 + '"}' + "*a" * 8000,
        '# "\na' + "+a" * 8000 + ' # "',
        "a{x='" + '"' + "'}" + "+a" * 8000 + " # '",
        'a{ # "\nx="1"}' + "+a" * 8000 + '{ # "\n}',
    ],
)
def test_many_operators_are_an_error_and_no_crash(text: str) -> None:
    assert len(text) <= LONGEST
    # In a process of its own: an overflow ends it.
    code = "import sys; from pilothouse.meta.promql import problem_of; print(problem_of(sys.stdin.read()))"
    done = subprocess.run(
        [sys.executable, "-c", code], input=text, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "operators and brackets" in done.stdout


def test_operators_in_strings_and_comments_do_not_count() -> None:
    names = "|".join(f"pvc-{number}-x-y-z" for number in range(300))
    assert problem_of(f'a{{volumename=~"{names}"}} > 5 # {"+" * 500}') == ""


def test_as_many_as_allowed_are_parsed() -> None:
    assert problem_of("a" + "+a" * MOST_OPERATORS) == ""
