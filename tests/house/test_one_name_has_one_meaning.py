"""One word has one meaning in the whole tree."""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "pilothouse"
MODULES = sorted(SOURCE.rglob("*.py"))
API_VERSION = re.compile(r"v\d+((alpha|beta)\d+)?")
MOST_MODULES_OF_ONE_NAME = 2


def test_no_public_class_name_stands_in_two_packages() -> None:
    packages: defaultdict[str, set[str]] = defaultdict(set)
    for module in MODULES:
        for node in ast.walk(ast.parse(module.read_text())):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                packages[node.name].add(module.relative_to(SOURCE).parts[0])
    assert {name: sorted(found) for name, found in packages.items() if len(found) > 1} == {}


def test_no_module_name_stands_more_than_twice() -> None:
    names = Counter(
        module.stem
        for module in MODULES
        if not module.stem.startswith("__") and not API_VERSION.fullmatch(module.stem)
    )
    assert {name: number for name, number in names.items() if number > MOST_MODULES_OF_ONE_NAME} == {}
