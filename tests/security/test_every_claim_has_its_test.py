from __future__ import annotations

import re
from pathlib import Path

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs/security.md"


def test_the_tests_that_the_page_names_are_there() -> None:
    named = re.findall(r"`([\w./]+\.py)(?:::(\w+))?`", PAGE.read_text())
    assert len(named) > 50
    missing = [
        f"{file}::{test}"
        for file, test in named
        if not (HERE / file).is_file() or (test and f"def {test}(" not in (HERE / file).read_text())
    ]
    assert missing == []


def test_each_test_of_a_stolen_credential_is_on_the_page() -> None:
    page = PAGE.read_text()
    tests = [
        test
        for file in HERE.glob("test_a_*.py")
        for test in re.findall(r"^def (test_it_\w+)\(", file.read_text(), re.MULTILINE)
    ]
    assert [test for test in tests if test not in page] == []
