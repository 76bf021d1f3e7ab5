"""YAML as Kubernetes reads it: 1.1 with its booleans, but times, ``13:00`` and keys are text.

    load(b"spec: {on: y, at: 13:00}", 128)     # ({"spec": {"true": True, "at": "13:00"}}, [])

Values are built from parser events on an explicit stack, and limits are checked first: nothing recurses, and
an alias costs as much as its target. Errors name the line and never quote it: a password that begins with
``*`` or ``!`` is an alias or a tag.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import yaml

from pilothouse.apiserver.storage.numbers import decimal

MOST_REPEATS = 100
"""Repeated keys that are reported."""
LONGEST_PATH = 1000
"""Characters of such a key, or of its path, that are reported."""
MAX_VALUES = 200_000
"""Values that a body may hold, in YAML or JSON."""
_MERGE = "<<"
_TAG = "tag:yaml.org,2002:"


def load(data: bytes, max_depth: int) -> tuple[Any, list[str]]:
    """The one document in ``data`` with JSON's types, and warnings about repeated keys. Raises
    ``ValueError``."""
    document = _Document(max_depth)
    try:
        for event in yaml.parse(data, Loader=yaml.CSafeLoader):
            document.take(event)
    except yaml.YAMLError as problem:
        raise ValueError(" ".join(str(problem).split())) from None
    except ValueError as problem:
        raise ValueError(f"line {document.line}: {problem}") from None
    return document.value, document.repeated


class _Merge:
    """The key ``<<`` where it stands for a merge, not for text."""


class _Open:
    """A list or mapping that is not complete; ``key`` waits for its value."""

    def __init__(self, anchor: str | None, cost: int, *, mapping: bool) -> None:
        self.anchor = anchor
        self.cost = cost
        self.mapping = mapping
        self.items: list[Any] = []
        self.pairs: dict[str, Any] = {}
        self.merged: list[Any] = []
        self.key: str | _Merge | None = None

    def close(self) -> Any:
        """The value so far; a mapping's own keys win over merged ones, and earlier merges over later ones."""
        if not self.mapping:
            return self.items
        merged = [each for given in self.merged for each in (given if isinstance(given, list) else [given])]
        if not all(isinstance(each, dict) for each in merged):
            raise ValueError(f"the value of {_MERGE} must be a mapping or a list of mappings")
        whole: dict[str, Any] = {}
        for each in [*reversed(merged), self.pairs]:
            whole.update(each)
        return whole


class _Document:
    def __init__(self, max_depth: int) -> None:
        self.value: Any = None
        self.repeated: list[str] = []
        self.line = 1
        self._max_depth = max_depth
        self._documents = 0
        self._cost = 0
        self._open: list[_Open] = []
        self._anchors: dict[str, tuple[Any, int]] = {}

    def take(self, event: yaml.Event) -> None:
        if event.start_mark is not None:
            self.line = event.start_mark.line + 1
        match event:
            case yaml.ScalarEvent():
                self._spend(1)
                self._scalar(event)
            case yaml.SequenceStartEvent() | yaml.MappingStartEvent():
                self._begin(event)
            case yaml.SequenceEndEvent() | yaml.MappingEndEvent():
                self._end()
            case yaml.AliasEvent():
                self._alias(str(event.anchor))
            case yaml.DocumentStartEvent():
                self._documents += 1
                if self._documents > 1:
                    raise ValueError("it holds more than one document")

    def _begin(self, event: yaml.CollectionStartEvent) -> None:
        mapping = isinstance(event, yaml.MappingStartEvent)
        if event.tag not in (None, "!", f"{_TAG}{'map' if mapping else 'seq'}"):
            raise _unknown()
        if len(self._open) >= self._max_depth:
            raise ValueError(f"it is nested deeper than {self._max_depth} levels")
        if self._awaits_key():
            raise ValueError("it has a key that is not text")
        self._open.append(_Open(event.anchor, self._cost, mapping=mapping))
        self._spend(1)

    def _end(self) -> None:
        ended = self._open.pop()
        self._give(ended.close(), ended.anchor, self._cost - ended.cost)

    def _scalar(self, event: yaml.ScalarEvent) -> None:
        plain = event.implicit[0] and event.tag is None
        if plain and event.value == _MERGE and self._awaits_key():
            self._open[-1].key = _Merge()
            return
        self._give(_resolve(event.value) if plain else _tagged(event.tag, event.value), event.anchor, 1)

    def _alias(self, anchor: str) -> None:
        if anchor not in self._anchors:
            raise ValueError(
                "an alias refers to no complete value before it; text that begins with * needs quotes"
            )
        value, cost = self._anchors[anchor]
        self._spend(cost)
        # Each use is an object of its own: what is done to one must not show in another.
        self._give(self._copy(value, len(self._open)), None, cost)

    def _give(self, value: Any, anchor: str | None, cost: int) -> None:
        """Add a complete value to its parent."""
        if anchor is not None:
            self._anchors[anchor] = (value, cost)
        if not self._open:
            self.value = value
            return
        parent = self._open[-1]
        if not parent.mapping:
            parent.items.append(value)
        elif parent.key is None:
            parent.key = _key(value)
            if parent.key in parent.pairs and len(self.repeated) < MOST_REPEATS:
                self.repeated.append(
                    f'line {self.line}: key "{parent.key[:LONGEST_PATH]}" already set in map'
                )
        else:
            if isinstance(parent.key, str):
                parent.pairs[parent.key] = value
            else:
                parent.merged.append(value)
            parent.key = None

    def _awaits_key(self) -> bool:
        return bool(self._open) and self._open[-1].mapping and self._open[-1].key is None

    def _spend(self, cost: int) -> None:
        self._cost += cost
        if self._cost > MAX_VALUES:
            raise ValueError(f"it expands to more than {MAX_VALUES} values")

    def _copy(self, value: Any, depth: int) -> Any:
        if not isinstance(value, dict | list):
            return value
        if depth >= self._max_depth:
            raise ValueError(f"it is nested deeper than {self._max_depth} levels")
        if isinstance(value, dict):
            return {name: self._copy(inner, depth + 1) for name, inner in value.items()}
        return [self._copy(inner, depth + 1) for inner in value]


# What text without quotes means

_BOOLEANS = {
    spelled: meaning
    for words, meaning in (("y yes true on", True), ("n no false off", False))
    for word in words.split()
    for spelled in (word, word.capitalize(), word.upper())
}
_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_INTEGER = re.compile(r"[-+]?(?:0b[01_]+|0x[0-9a-fA-F_]+|0[0-7_]*|[1-9][0-9_]*)")
_FLOAT = re.compile(
    r"[-+]?(?:[0-9][0-9_]*\.[0-9_]*(?:[eE][-+]?[0-9]+)?|[0-9][0-9_]*[eE][-+]?[0-9]+|"
    r"\.[0-9][0-9_]*(?:[eE][-+]?[0-9]+)?)"
)
_BASES = {"0b": 2, "0x": 16}
_LONGEST_NUMBER = 400
"""Characters; more digits than any number that JSON's readers keep."""


def _resolve(text: str) -> Any:
    if text in _NULLS:
        return None
    if text in _BOOLEANS:
        return _BOOLEANS[text]
    if text[0] in "+-.0123456789":
        if _INTEGER.fullmatch(text):
            return _integer(text)
        if _FLOAT.fullmatch(text):
            return _float(text)
    return text


def _integer(text: str) -> int:
    digits = _number(text)
    sign = -1 if digits.startswith("-") else 1
    digits = digits.lstrip("+-")
    base = _BASES.get(digits[:2]) or (8 if len(digits) > 1 and digits.startswith("0") else 10)
    try:
        return sign * int(digits[2:] if base in (2, 16) else digits, base)
    except ValueError:
        raise ValueError("a value tagged as an integer is not one") from None


def _float(text: str) -> int | float:
    digits = _number(text)
    try:
        return decimal(digits)
    except ValueError:
        raise ValueError("a number is invalid or out of range") from None


def _number(text: str) -> str:
    if len(text) > _LONGEST_NUMBER:
        raise ValueError(f"a number has more than {_LONGEST_NUMBER} characters and is out of range")
    return text.replace("_", "")


def _null(text: str) -> None:
    if text not in _NULLS:
        raise ValueError("a value tagged as null is not null")


def _boolean(text: str) -> bool:
    if text not in _BOOLEANS:
        raise ValueError("a value tagged as a boolean is not one")
    return _BOOLEANS[text]


_TAGGED: dict[str, Callable[[str], Any]] = {
    f"{_TAG}str": str,
    f"{_TAG}int": _integer,
    f"{_TAG}float": _float,
    f"{_TAG}bool": _boolean,
    f"{_TAG}null": _null,
}


def _tagged(tag: str | None, text: str) -> Any:
    """Quoted text, or text with an explicit tag."""
    if tag in (None, "!"):
        return text
    if tag not in _TAGGED:
        raise _unknown()
    return _TAGGED[tag](text)


def _unknown() -> ValueError:
    return ValueError("a value has a tag that JSON does not have; text that begins with ! needs quotes")


def _key(name: Any) -> str:
    if isinstance(name, bool):
        return "true" if name else "false"
    if isinstance(name, str | int | float):
        return str(name)
    raise ValueError("it has a key that is not text")
