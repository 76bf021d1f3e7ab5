"""What is wrong with an expression is said where it is written; none ends or delays the process that parses it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from pilothouse.meta.promql import MOST_OPERATORS, PromqlError, parse, problem_of


@pytest.mark.parametrize(
    "text",
    [
        "up",
        "rate(requests_total[5m]) > 3",
        "100 * (px_volume_usage_bytes / px_volume_capacity_bytes)",
        'sum by (pod) (rate(x{job=~"a-(b|c)-.*",verb!="get"}[5m] offset 1h)) / 1e9',
        "time()",
        "3",
        "up # (((( a comment",
    ],
)
def test_what_can_be_compared_is_taken(text: str) -> None:
    assert problem_of(text) == ""


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("sum(", "unclosed left parenthesis"),
        ("rate(up)", "expected type matrix in call to function 'rate', got vector"),
        ("up[5m]", "is a range of samples"),
        ("(up[5m])", "is a range of samples"),
        ("max_over_time(up[5m])[1h:1m]", "is a range of samples"),
        ("'text'", "is a string"),
        ("", "no expression found"),
        ("x" * 20_000, "at most 16384 are allowed"),
    ],
)
def test_what_can_not_be_compared_is_explained(text: str, problem: str) -> None:
    assert problem in problem_of(text)


@pytest.mark.parametrize(
    "text",
    [
        "(" * 8000 + "1" + ")" * 8000,
        "a + " * 4000 + "a",
        "a^" * 8000 + "a",
        "a or " * 3000 + "a",
        "abs(" * 3000 + "a" + ")" * 3000,
        '# "\n' + "(" * 8000 + "1" + ")" * 8000 + '# "',
        "# '\n" + "a^" * 8000 + "a # '",
    ],
)
def test_a_deep_expression_is_refused(text: str) -> None:
    assert f"at most {MOST_OPERATORS} are allowed" in problem_of(text)
    with pytest.raises(PromqlError):
        parse(text)


def test_strings_and_matchers_do_not_count_as_depth() -> None:
    names = "|".join(f"pod-{number}" for number in range(500))
    assert problem_of(f'up{{pod=~"{names}"}}') == ""
    matchers = ",".join(f'l{number}!="a"' for number in range(500))
    assert problem_of(f"up{{{matchers}}}") == ""


def test_the_parser_is_not_loaded_before_the_first_expression() -> None:
    code = (
        "import sys; import pilothouse.api.openstorage.rule_kinds as kinds; kinds.resources();"
        "print('promql_parser' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
