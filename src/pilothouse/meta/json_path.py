"""The JSONPath of Kubernetes' printer columns, scale paths and selectable fields.

    ready = compile_path('.status.conditions[?(@.type=="Ready")].status')
    ready({"status": {"conditions": [{"type": "Ready", "status": "True"}]}})     # ["True"]

    phase = compile_first(".status.phase")
    phase({})                                                                    # None

A path is compiled into a chain of functions; missing values yield nothing. Plain dotted paths, nearly all of
them, become one loop of dictionary lookups.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator
from typing import Any, Final

Step = Callable[[list[Any]], list[Any]]
Path = Callable[[Any], list[Any]]

_LONGEST: Final = 2048
_MOST_DESCENTS: Final = 2
_DEEPEST_FILTER: Final = 8
_PLAIN: Final = re.compile(r"(?:\.(?:[^\s.\[\]\\*?()'\"{}$@]|\\.)+)+")
_FIELD: Final = re.compile(r"(?:[^\s.\[\]\\*?()'\"{}$@=!<>&|,]|\\.)+")
_QUOTED: Final = re.compile(r"'((?:[^'\\]|\\.)*)'|\"((?:[^\"\\]|\\.)*)\"")
_SLICE: Final = re.compile(r"(-?\d{1,9})?(?::(-?\d{1,9})?)?(?::(-?\d{1,9})?)?", re.ASCII)
_NUMBER: Final = re.compile(r"-?\d+(\.\d+)?", re.ASCII)
_COMPARISONS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
}


class PathError(ValueError):
    """The text is no JSONPath, or one with unsupported syntax."""

    def __init__(self, text: str, at: int, expected: str) -> None:
        super().__init__(f"{text!r} is not a JSONPath: expected {expected} at position {at}")


def compile_path(text: str) -> Path:
    """A function from an object to all matches, in order. Raises PathError, a ValueError."""
    fields = plain_fields(text)
    if fields is not None:
        first = _plain(fields)

        def find(obj: Any) -> list[Any]:
            value = first(obj)
            return [] if value is _MISSING else [value]

        return find
    return _walk(_Parser(_unwrapped(text)).steps())


def compile_first(text: str) -> Callable[[Any], Any]:
    """A function from an object to the first match, or None."""
    fields = plain_fields(text)
    if fields is not None:
        find_plain = _plain(fields)

        def first_plain(obj: Any) -> Any:
            value = find_plain(obj)
            return None if value is _MISSING else value

        return first_plain
    find_all = compile_path(text)

    def first(obj: Any) -> Any:
        values = find_all(obj)
        return values[0] if values else None

    return first


def plain_fields(text: str) -> tuple[str, ...] | None:
    """The names of a plain dotted path (``.spec.replicas``); None for any other path."""
    text = _unwrapped(text)
    if not _PLAIN.fullmatch(text):
        return None
    return tuple(_unescaped(name) for name in re.findall(r"\.((?:[^.\\]|\\.)+)", text))


def _unwrapped(text: str) -> str:
    if len(text) > _LONGEST:
        raise PathError(text[:40] + "…", _LONGEST, f"at most {_LONGEST} characters")
    stripped = text.strip()
    if stripped.startswith("{") and stripped.endswith("}"):
        stripped = stripped[1:-1].strip()
    return stripped


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text)


class _Missing:
    """What a plain path yields for a missing value; null is a value."""


_MISSING: Final = _Missing()


def _plain(fields: tuple[str, ...]) -> Callable[[Any], Any]:
    if len(fields) == 2:
        outer, inner = fields

        def two(obj: Any) -> Any:
            value = obj.get(outer) if type(obj) is dict else None
            return value.get(inner, _MISSING) if type(value) is dict else _MISSING

        return two

    def many(obj: Any) -> Any:
        for field in fields:
            if type(obj) is not dict or field not in obj:
                return _MISSING
            obj = obj[field]
        return obj

    return many


class _Parser:
    """Recursive descent parser; ``_at`` is the position after what was read."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._descents = 0
        self._depth = 0

    def steps(self) -> list[Step]:
        if self._text[:1] in ("$", "@"):
            self._at = 1
        steps = self._chain()
        if self._at < len(self._text):
            raise self._expected("'.', '[' or the end")
        return steps

    def _chain(self) -> list[Step]:
        steps: list[Step] = []
        while self._at < len(self._text):
            if self._take(".."):
                # Each one multiplies the work by the size of the object.
                self._descents += 1
                if self._descents > _MOST_DESCENTS:
                    raise self._expected(f"at most {_MOST_DESCENTS} times '..'")
                steps.append(_descend)
                if self._text[self._at : self._at + 1] != "[":
                    steps.append(self._name())
            elif self._take("."):
                if self._at < len(self._text):
                    steps.append(self._name())
            elif self._take("["):
                steps.append(self._bracket())
            elif not steps and self._at == 0:
                steps.append(self._name())
            else:
                break
        return steps

    def _name(self) -> Step:
        if self._take("*"):
            return _every
        match = _FIELD.match(self._text, self._at)
        if match is None:
            raise self._expected("a field's name")
        self._at = match.end()
        return _field(_unescaped(match[0]))

    def _bracket(self) -> Step:
        self._skip_space()
        if self._take("?("):
            self._depth += 1
            if self._depth > _DEEPEST_FILTER:
                raise self._expected(f"filters at most {_DEEPEST_FILTER} deep")
            step = self._filter()
            self._depth -= 1
        elif self._take("*"):
            step = _every
        else:
            step = self._selectors()
        self._skip_space()
        if not self._take("]"):
            raise self._expected("']'")
        return step

    def _selectors(self) -> Step:
        choices = [self._selector()]
        self._skip_space()
        while self._take(","):
            self._skip_space()
            choices.append(self._selector())
            self._skip_space()
        if len(choices) == 1:
            return choices[0]
        return lambda values: [match for value in values for choice in choices for match in choice([value])]

    def _selector(self) -> Step:
        quoted = _QUOTED.match(self._text, self._at)
        if quoted is not None:
            self._at = quoted.end()
            return _field(_unescaped(quoted[1] if quoted[1] is not None else quoted[2]))
        numbers = _SLICE.match(self._text, self._at)
        if numbers is None or not numbers[0]:
            raise self._expected("an index, a quoted name, '*' or '?('")
        self._at = numbers.end()
        bounds = [int(bound) if bound else None for bound in numbers.groups()]
        if ":" not in numbers[0]:
            return _index(int(numbers[0]))
        if bounds[2] is not None and bounds[2] < 1:
            raise self._expected("a step of at least 1")
        return _slice(slice(*bounds))

    def _filter(self) -> Step:
        left = self._operand()
        self._skip_space()
        compare = None
        for symbol, function in _COMPARISONS.items():
            if self._take(symbol):
                compare = function
                break
        right = self._operand() if compare is not None else None
        self._skip_space()
        if not self._take(")"):
            raise self._expected("')'")
        if compare is None or right is None:
            return lambda values: [item for item in _items(values) if left(item)]
        return _filter(left, compare, right)

    def _operand(self) -> Path:
        self._skip_space()
        if self._take("@") or self._take("$"):
            return _walk(self._operand_chain())
        literal = self._literal()
        return lambda item: [literal]

    def _operand_chain(self) -> list[Step]:
        steps: list[Step] = []
        while True:
            if self._take("."):
                steps.append(self._name())
            elif self._take("["):
                steps.append(self._bracket())
            else:
                return steps

    def _literal(self) -> Any:
        quoted = _QUOTED.match(self._text, self._at)
        if quoted is not None:
            self._at = quoted.end()
            return _unescaped(quoted[1] if quoted[1] is not None else quoted[2])
        for word, value in (("true", True), ("false", False), ("null", None)):
            if self._take(word):
                return value
        number = _NUMBER.match(self._text, self._at)
        if number is None:
            raise self._expected("'@', a number, a quoted text, true or false")
        self._at = number.end()
        return float(number[0]) if number[1] else int(number[0])

    def _take(self, token: str) -> bool:
        if self._text.startswith(token, self._at):
            self._at += len(token)
            return True
        return False

    def _skip_space(self) -> None:
        while self._text[self._at : self._at + 1] == " ":
            self._at += 1

    def _expected(self, what: str) -> PathError:
        return PathError(self._text, self._at, what)


def _walk(steps: list[Step]) -> Path:
    def walk(obj: Any) -> list[Any]:
        values = [obj]
        for step in steps:
            values = step(values)
        return values

    return walk


def _field(name: str) -> Step:
    return lambda values: [value[name] for value in values if type(value) is dict and name in value]


def _index(index: int) -> Step:
    return lambda values: [
        value[index] for value in values if type(value) is list and -len(value) <= index < len(value)
    ]


def _slice(bounds: slice) -> Step:
    return lambda values: [item for value in values if type(value) is list for item in value[bounds]]


def _items(values: list[Any]) -> Iterator[Any]:
    for value in values:
        if type(value) is list:
            yield from value
        elif type(value) is dict:
            yield from value.values()


def _every(values: list[Any]) -> list[Any]:
    return list(_items(values))


def _descend(values: list[Any]) -> list[Any]:
    """Each value and everything below it, parents first."""
    found: list[Any] = []
    waiting = list(reversed(values))
    while waiting:
        value = waiting.pop()
        found.append(value)
        waiting.extend(reversed(list(_items([value]))))
    return found


def _filter(left: Path, compare: Callable[[Any, Any], Any], right: Path) -> Step:
    def matches(item: Any) -> bool:
        found, wanted = left(item), right(item)
        if not found or not wanted:
            return False
        try:
            return bool(compare(found[0], wanted[0]))
        except TypeError:
            return False  # a text is neither more nor less than a number

    return lambda values: [item for item in _items(values) if matches(item)]
