"""Manifests as kubectl reads them: YAML whose times and clock readings stay text.

    for obj in load(Path("examples/pilot.yaml")): ...

PyYAML follows YAML 1.1, where ``13:00`` is the number 780 and ``2017-10-01T19:00:00+00`` a date. kubectl sends both as
strings, so the tests have to read them so.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

_NOT_RESOLVED = ("tag:yaml.org,2002:timestamp",)
_SEXAGESIMAL = ":"


class _Loader(yaml.SafeLoader):
    """YAML without dates and without base-60 numbers."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, regexp) for tag, regexp in resolvers if tag not in _NOT_RESOLVED]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def _number(convert: Any) -> Any:
    def construct(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> Any:
        text = loader.construct_scalar(node)
        return text if _SEXAGESIMAL in str(text) else convert(loader, node)

    return construct


_Loader.add_constructor("tag:yaml.org,2002:int", _number(yaml.SafeLoader.construct_yaml_int))
_Loader.add_constructor("tag:yaml.org,2002:float", _number(yaml.SafeLoader.construct_yaml_float))


def loads(text: str) -> list[dict[str, Any]]:
    """Every object of a text."""
    return [obj for obj in yaml.load_all(text, _Loader) if obj is not None]


def load(path: Path) -> list[dict[str, Any]]:
    """Every object of a file."""
    return loads(path.read_text())
