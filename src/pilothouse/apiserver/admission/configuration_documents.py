"""Configuration files in YAML; every problem is reported with its line.

    document = compose("kind: Policy\\nrules: yes\\n", "policy.yaml")
    reader = DocumentReader("policy.yaml")
    reader.items(reader.fields(document, "", ("kind", "rules")), "rules", "", reader.text)
    reader.problems      # ['policy.yaml, line 2: rules: must be a list']

A reader collects problems and returns harmless values, so callers check ``problems`` before using the result.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import yaml

_TEXT, _BOOLEAN = "tag:yaml.org,2002:str", "tag:yaml.org,2002:bool"
_NULL = "tag:yaml.org,2002:null"
_TRUE = frozenset({"true", "yes", "on"})

Node = yaml.Node
T = TypeVar("T")


class DocumentError(Exception):
    """A text that is no YAML; the message names the file and the place."""


def compose(text: str, source: str) -> Node | None:
    """The document in a text; None if it is empty. ``source`` names the file in messages."""
    try:
        node: Node | None = yaml.compose(text, Loader=yaml.CSafeLoader)
    except yaml.YAMLError as problem:
        raise DocumentError(f"{source}: not valid YAML: {' '.join(str(problem).split())}") from None
    return node


class DocumentReader:
    def __init__(self, source: str) -> None:
        self._source = source
        self.problems: list[str] = []

    def flag(self, node: yaml.Node, path: str) -> bool:
        if node.tag != _BOOLEAN:
            self.wrong(node, path, "must be true or false")
            return False
        return str(node.value).lower() in _TRUE

    def text(self, node: yaml.Node, path: str) -> str:
        if not isinstance(node, yaml.ScalarNode) or node.tag != _TEXT:
            self.wrong(node, path, "must be text")
            return ""
        return str(node.value)

    def words(self, fields: dict[str, yaml.Node], name: str, path: str) -> frozenset[str]:
        return frozenset(self.items(fields, name, path, self.text))

    def items(
        self, fields: dict[str, yaml.Node], name: str, path: str, item: Callable[[yaml.Node, str], T]
    ) -> tuple[T, ...]:
        node = fields.get(name)
        where = f"{path}.{name}" if path else name
        if node is None or node.tag == _NULL:
            return ()
        if not isinstance(node, yaml.SequenceNode):
            self.wrong(node, where, "must be a list")
            return ()
        return tuple(item(each, f"{where}[{index}]") for index, each in enumerate(node.value))

    def optional(
        self,
        fields: dict[str, yaml.Node],
        name: str,
        path: str,
        read: Callable[[yaml.Node, str], T],
        default: T,
    ) -> T:
        if name not in fields:
            return default
        return read(fields[name], f"{path}.{name}" if path else name)

    def fields(self, node: yaml.Node, path: str, known: tuple[str, ...]) -> dict[str, yaml.Node]:
        if not isinstance(node, yaml.MappingNode):
            self.wrong(node, path or "the document", "must be a mapping")
            return {}
        fields: dict[str, yaml.Node] = {}
        for key, value in node.value:
            name = str(key.value)
            where = f"{path}.{name}" if path else name
            if name not in known:
                self.wrong(key, where, f"is not a known field; known are {', '.join(known)}")
            elif name in fields:
                self.wrong(key, where, "is given twice")
            fields[name] = value
        return fields

    def wrong(self, node: yaml.Node, path: str, what: str) -> None:
        self.problems.append(f"{self._source}, line {node.start_mark.line + 1}: {path}: {what}")
