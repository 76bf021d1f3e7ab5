"""Label and field selectors.

    web = LabelSelector.parse("app=web,tier in (a,b),!legacy")
    web.matches({"app": "web", "tier": "a"})        # True

    mine = FieldSelector.parse("metadata.name=db-1,spec.engine!=pg")
    mine.exact("metadata.name")                     # "db-1"

Selectors are frozen and their requirements sorted, so order doesn't affect equality. Invalid text raises
``SelectorError``, both a ``ValueError`` and a 400.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from pilothouse.meta import names
from pilothouse.meta.errors import StatusError

EQUALS: Final = "="
NOT_EQUALS: Final = "!="
IN: Final = "in"
NOT_IN: Final = "notin"
EXISTS: Final = "exists"
ABSENT: Final = "!"
GREATER: Final = ">"
LESS: Final = "<"

_TOKEN: Final = re.compile(r"\s*(==|!=|[=!<>(),]|[^\s=!<>(),]+|$)")
_ESCAPED: Final = re.compile(r"[\\,=]")
_INTEGER: Final = re.compile(r"[+-]?\d{1,19}", re.ASCII)
_OBJECT_OPERATORS: Final = {"In": IN, "NotIn": NOT_IN, "Exists": EXISTS, "DoesNotExist": ABSENT}


class SelectorError(StatusError, ValueError):
    """The text or object is no selector."""

    def __init__(self, message: str) -> None:
        StatusError.__init__(self, 400, "BadRequest", message)


class LabelRequirement(NamedTuple):
    """One condition on one label. ``values`` is sorted."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.operator == EXISTS:
            return self.key
        if self.operator == ABSENT:
            return f"!{self.key}"
        if self.operator in (IN, NOT_IN):
            return f"{self.key} {self.operator} ({','.join(self.values)})"
        return f"{self.key}{self.operator}{self.values[0]}"

    def matches(self, labels: Mapping[str, str]) -> bool:
        value = labels.get(self.key)
        match self.operator:
            case "=" | "in":
                return value in self.values
            case "!=" | "notin":
                return value not in self.values
            case "exists":
                return value is not None
            case "!":
                return value is None
        if value is None or not _INTEGER.fullmatch(value):
            return False
        bound = int(self.values[0])
        return int(value) > bound if self.operator == GREATER else int(value) < bound


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """All requirements must hold; without any, it matches everything."""

    requirements: tuple[LabelRequirement, ...] = ()

    @classmethod
    def parse(cls, text: str) -> LabelSelector:
        return cls(tuple(sorted(_Parser(text).requirements())))

    @classmethod
    def from_object(cls, selector: Mapping[str, Any]) -> LabelSelector:
        """From ``{"matchLabels": …, "matchExpressions": …}``."""
        found = [_checked(key, EQUALS, [value]) for key, value in _mapping(selector, "matchLabels").items()]
        for index, expression in enumerate(selector.get("matchExpressions") or ()):
            at = f"matchExpressions[{index}]"
            if not isinstance(expression, dict):
                raise SelectorError(f"{at}: expected an object with key, operator and values")
            operator = _OBJECT_OPERATORS.get(expression.get("operator", ""))
            if operator is None:
                raise SelectorError(
                    f"{at}.operator: {expression.get('operator')!r} is not an operator: expected one of "
                    + ", ".join(_OBJECT_OPERATORS)
                )
            values = expression.get("values") or []
            if not isinstance(values, list):
                raise SelectorError(f"{at}.values: expected a list of strings")
            if operator in (IN, NOT_IN) and not values:
                raise SelectorError(f"{at}.values: must be specified when `operator` is 'In' or 'NotIn'")
            if operator in (EXISTS, ABSENT) and values:
                raise SelectorError(
                    f"{at}.values: may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
                )
            found.append(_checked(expression.get("key", ""), operator, values))
        return cls(tuple(sorted(found)))

    def matches(self, labels: Mapping[str, str] | None) -> bool:
        present = labels or {}
        return all(requirement.matches(present) for requirement in self.requirements)

    def __bool__(self) -> bool:
        """False for the selector that matches everything."""
        return bool(self.requirements)

    def __str__(self) -> str:
        return ",".join(str(requirement) for requirement in self.requirements)


class FieldRequirement(NamedTuple):
    """``field = value`` or ``field != value``."""

    field: str
    operator: str
    value: str

    def __str__(self) -> str:
        return self.field + self.operator + _ESCAPED.sub(r"\\\g<0>", self.value)


@dataclass(frozen=True, slots=True)
class FieldSelector:
    """All requirements must hold; without any, it matches everything."""

    requirements: tuple[FieldRequirement, ...] = ()

    @classmethod
    def parse(cls, text: str) -> FieldSelector:
        return cls(tuple(sorted(_field_term(text, term) for term in _split_terms(text) if term.strip())))

    def matches(self, get: Callable[[str], str]) -> bool:
        """``get`` returns the text of a field, empty for an absent one."""
        return all(
            (get(field) == value) == (operator == EQUALS) for field, operator, value in self.requirements
        )

    def exact(self, field: str) -> str | None:
        """The value that the selector demands of a field, or None."""
        for requirement in self.requirements:
            if requirement.field == field and requirement.operator == EQUALS:
                return requirement.value
        return None

    def __bool__(self) -> bool:
        """False for the selector that matches everything."""
        return bool(self.requirements)

    def __str__(self) -> str:
        return ",".join(str(requirement) for requirement in self.requirements)


class _Parser:
    """A parser of label selectors."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = [match[1] for match in _TOKEN.finditer(text)]
        self._at = 0

    def requirements(self) -> Iterable[LabelRequirement]:
        if not self._text.strip():
            return
        while True:
            yield self._requirement()
            token = self._next()
            if token == "":
                return
            if token != ",":
                raise self._unexpected(token, "',' or the end")

    def _requirement(self) -> LabelRequirement:
        token = self._next()
        if token == "!":
            return _checked(self._word("a label's name"), ABSENT, [])
        if not _is_word(token):
            raise self._unexpected(token, "'!' or a label's name")
        operator = self._peek()
        if operator in ("", ","):
            return _checked(token, EXISTS, [])
        self._at += 1
        if operator in ("=", "==", "!="):
            return _checked(token, NOT_EQUALS if operator == "!=" else EQUALS, [self._optional_word()])
        if operator in ("in", "notin"):
            return _checked(token, operator, self._values())
        if operator in (">", "<"):
            return _checked(token, operator, [self._word("an integer")])
        raise self._unexpected(operator, "'=', '==', '!=', 'in', 'notin', '>' or '<'")

    def _values(self) -> list[str]:
        token = self._next()
        if token != "(":
            raise self._unexpected(token, "'('")
        values = [self._optional_word()]
        while (token := self._next()) == ",":
            values.append(self._optional_word())
        if token != ")":
            raise self._unexpected(token, "',' or ')'")
        return values

    def _word(self, expected: str) -> str:
        token = self._next()
        if not _is_word(token):
            raise self._unexpected(token, expected)
        return token

    def _optional_word(self) -> str:
        return self._next() if _is_word(self._peek()) else ""

    def _peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _next(self) -> str:
        token = self._peek()
        self._at += 1
        return token

    def _unexpected(self, token: str, expected: str) -> SelectorError:
        found = f"found '{token}'" if token else "found the end"
        return SelectorError(f'unable to parse label selector "{self._text}": {found}, expected {expected}')


def _is_word(token: str) -> bool:
    return bool(token) and token[0] not in "=!<>(),"


def _checked(key: Any, operator: str, values: list[Any]) -> LabelRequirement:
    if not isinstance(key, str) or not all(isinstance(value, str) for value in values):
        raise SelectorError(f"label selector: key and values of {key!r} must be strings")
    if problem := names.qualified_name(key):
        raise SelectorError(f'label selector: key: Invalid value: "{key}": {problem}')
    for value in values:
        if operator in (GREATER, LESS):
            if not _INTEGER.fullmatch(value):
                raise SelectorError(f'label selector: "{key}{operator}{value}": the value must be an integer')
        elif problem := names.label_value(value):
            raise SelectorError(f'label selector: values[{key}]: Invalid value: "{value}": {problem}')
    return LabelRequirement(key, operator, tuple(sorted(set(values))))


def _mapping(selector: Mapping[str, Any], field: str) -> Mapping[str, Any]:
    value = selector.get(field) or {}
    if not isinstance(value, dict):
        raise SelectorError(f"{field}: expected a map of strings")
    return value


def _split_terms(text: str) -> list[str]:
    """Split at commas without a backslash; escapes stay in."""
    return re.findall(r"((?:\\.|[^\\,])+|\\$)", text, re.DOTALL)


def _field_term(text: str, term: str) -> FieldRequirement:
    index = 0
    while index < len(term):
        for operator in (NOT_EQUALS, "==", EQUALS):
            if term.startswith(operator, index):
                value = _unescape(text, term[index + len(operator) :])
                return FieldRequirement(term[:index].strip(), operator.replace("==", EQUALS), value)
        index += 2 if term[index] == "\\" else 1
    raise SelectorError(
        f'unable to parse field selector "{text}": can\'t understand "{term}": '
        "expected field=value or field!=value"
    )


def _unescape(text: str, value: str) -> str:
    pieces = []
    index = 0
    while index < len(value):
        character = value[index]
        if character == "\\":
            index += 1
            character = value[index : index + 1]
            if character not in ("\\", ",", "="):
                raise SelectorError(
                    f'unable to parse field selector "{text}": only \\\\, \\, and \\= may follow a backslash'
                )
        elif character == "=":
            raise SelectorError(
                f'unable to parse field selector "{text}": unescaped "=" in the value "{value}"'
            )
        pieces.append(character)
        index += 1
    return "".join(pieces)
