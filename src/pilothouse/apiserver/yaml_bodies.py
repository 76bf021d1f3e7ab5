"""YAML as Kubernetes reads it: version 1.1 with its booleans, but times and ``13:00`` stay text, and keys are text.

What anchors and aliases expand to is bounded, so a small document can't become a large object.
"""

from __future__ import annotations

import re
from typing import Any

import yaml

_MAX_NODES = 500_000


def load(data: bytes, max_depth: int) -> tuple[Any, list[str]]:
    """The one document in ``data`` with JSON's types only, and the keys that it repeats. Raises ``ValueError``."""
    loader = _Loader(data)
    try:
        node = loader.get_single_node()
        value = loader.construct_document(node) if node is not None else None
    except RecursionError:
        raise ValueError("nested too deeply") from None
    except (yaml.YAMLError, ValueError) as problem:
        raise ValueError(" ".join(str(problem).split())) from None
    finally:
        loader.dispose()
    return _Plain(max_depth).of(value, 0), loader.repeated


class _Loader(yaml.CSafeLoader):
    """Safe YAML without implicit times and sexagesimal numbers, remembering repeated keys."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self.repeated: list[str] = []

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    self.repeated.append(str(key.value))
                seen.add(key.value)
        return super().construct_mapping(node, deep)


_PREFIX = "tag:yaml.org,2002:"
_REPLACED = {f"{_PREFIX}timestamp", f"{_PREFIX}int", f"{_PREFIX}float"}
_INTEGER = re.compile(r"^[-+]?(?:0b[01_]+|0x[0-9a-fA-F_]+|0[0-7_]*|[1-9][0-9_]*)$")
_FLOAT = re.compile(
    r"^[-+]?(?:[0-9][0-9_]*\.[0-9_]*(?:[eE][-+]?[0-9]+)?|[0-9][0-9_]*[eE][-+]?[0-9]+|\.[0-9][0-9_]*(?:[eE][-+]?[0-9]+)?)$"
)
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag not in _REPLACED]
    for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(f"{_PREFIX}int", _INTEGER, list("-+0123456789"))
_Loader.add_implicit_resolver(f"{_PREFIX}float", _FLOAT, list("-+0123456789."))


class _Plain:
    """Reduces what YAML made to JSON's types, within bounds."""

    def __init__(self, max_depth: int) -> None:
        self._max_depth = max_depth
        self._left = _MAX_NODES

    def of(self, value: Any, depth: int) -> Any:
        self._left -= 1
        if self._left < 0:
            raise ValueError(f"it expands to more than {_MAX_NODES} values")
        if depth > self._max_depth:
            raise ValueError(f"it is nested deeper than {self._max_depth} levels")
        if isinstance(value, dict):
            return {_key(name): self.of(inner, depth + 1) for name, inner in value.items()}
        if isinstance(value, list):
            return [self.of(inner, depth + 1) for inner in value]
        if value is None or isinstance(value, str | int | float):
            return value
        raise ValueError(f"it holds a value of type {type(value).__name__}, which JSON has not")


def _key(name: Any) -> str:
    if isinstance(name, bool):
        return "true" if name else "false"
    if isinstance(name, str | int | float):
        return str(name)
    raise ValueError("it has a key that is not text")
