"""What evaluating a CEL expression costs at most, worked out from its tree and the sizes of what it reads.

    cost(tree, {"self": of_value(obj), "oldSelf": of_value(None)})

The evaluator can't be interrupted, holds the interpreter's lock and knows no limit but one on iterations. So the cost is
bounded before an expression runs: each operation is charged for the sizes that its operands can have, a branch for the dearer
side, a loop for as many turns as its list has elements.

A unit is 50 ns, or 16 bytes of text, or half an element of a list, at most: ``CALL_LIMIT`` is some 50 ms and 32 MB. In a real
evaluation most things take a tenth of that, since tests end loops and text is rarely as long as it might be.

Sizes come as an ``ValueSize``: of a value that is at hand (``of_value``), of any value with so many bytes of JSON (``of_bytes``), of any
that a schema describes (``of_schema``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, Final

from pilothouse.meta.cel import ast
from pilothouse.meta.cel.functions import FUNCTIONS
from pilothouse.meta.schema.model import Schema
from pilothouse.meta.schema.regular_expressions import MAX_STEPS_AGAIN, rough_size, size_of

CALL_LIMIT: Final = 1_000_000
"""What one evaluation of one expression may cost."""
OBJECT_LIMIT: Final = 10_000_000
"""What all rules together may cost for one object."""

MAX_TURNS: Final = 10_000
"""After as many turns, of all loops together, the evaluator itself stops an expression."""

_MOST: Final = 10**15
"""Numbers stop growing here, so that what doubles again and again is still quickly worked out."""
_MANY: Final = 4096
"""Of more values than this only the largest is known."""
_ROOTS: Final = {"self": 16, "oldSelf": 16}
"""What it costs to look up a value that was handed in from Python."""
_OWN: Final = 100
"""A call of a function that is written in Python."""
_LARGEST_PATTERN: Final = 200_000
"""The evaluator refuses what is larger."""

Reading = tuple[int, "ValueSize"]
Scope = Mapping[str, "ValueSize"]


class ValueSize:
    """How large a value can be.

    ``length`` counts a text's bytes, or the elements of a list or map; ``count`` the values in it, itself included; ``weight`` those and
    all their bytes. ``text`` is True if it can be nothing but text or a scalar.
    """

    length: int = 0
    count: int = 1
    weight: int = 1
    text: bool = False

    @property
    def pattern_size(self) -> int:
        """How large it is as a regular expression, with repetitions written out."""
        return min(self.length * 10_000, _LARGEST_PATTERN)

    def field(self, name: str) -> ValueSize:
        """Of the value of a field."""
        return self.element()

    def element(self) -> ValueSize:
        """Of any element, or any value in a map."""
        return SCALAR

    def key(self) -> ValueSize:
        """Of any key of a map, or any element of a list: what a loop's variable stands for."""
        return self.element()


class _Made(ValueSize):
    """Of what an expression makes."""

    def __init__(
        self,
        length: int,
        weight: int,
        inner: ValueSize | None = None,
        *,
        text: bool = False,
        count: int | None = None,
    ) -> None:
        self.length = min(length, _MOST)
        self.weight = min(max(weight, length, 1), _MOST)
        self.count = 1 if text else self.weight if count is None else min(count, _MOST)
        self.text = text
        self._inner = inner

    def element(self) -> ValueSize:
        return SCALAR if self._inner is None else self._inner


class _Uniform(ValueSize):
    """Of a value of which only the size as JSON is known: so is whatever is in it."""

    def __init__(self, size: int) -> None:
        self.length = self.count = self.weight = size

    def element(self) -> ValueSize:
        return self


class _OfValues(ValueSize):
    """Of values at hand: of each at least as large as the largest."""

    def __init__(self, values: Sequence[Any]) -> None:
        self._values = values
        self.text = all(not isinstance(value, (dict, list)) for value in values)

    @cached_property
    def length(self) -> int:  # type: ignore[override]
        return max((_length(value) for value in self._values), default=0)

    @cached_property
    def count(self) -> int:  # type: ignore[override]
        return self._weighed[0]

    @cached_property
    def weight(self) -> int:  # type: ignore[override]
        return self._weighed[1]

    @cached_property
    def _weighed(self) -> tuple[int, int]:
        weighed = [weigh(value) for value in self._values]
        return max((count for count, _ in weighed), default=1), max(
            (weight for _, weight in weighed), default=1
        )

    @cached_property
    def pattern_size(self) -> int:
        texts = [value for value in self._values if isinstance(value, str)]
        return min(max(map(rough_size, texts), default=0), _LARGEST_PATTERN)

    @cached_property
    def _fields(self) -> dict[str, ValueSize]:
        return {}

    def field(self, name: str) -> ValueSize:
        known = self._fields.get(name)
        if known is None:
            found = [value[name] for value in self._values if isinstance(value, dict) and name in value]
            known = self._fields[name] = _of_values(found)
        return known

    def element(self) -> ValueSize:
        return self._element

    @cached_property
    def _element(self) -> ValueSize:
        inner: list[Any] = []
        for value in self._values:
            if isinstance(value, (dict, list)):
                inner += value.values() if isinstance(value, dict) else value
        return _of_values(inner)

    def key(self) -> ValueSize:
        return self._key

    @cached_property
    def _key(self) -> ValueSize:
        keys = [key for value in self._values if isinstance(value, dict) for key in value]
        listed = [item for value in self._values if isinstance(value, list) for item in value]
        return _of_values(keys + listed)


class _OfSchema(ValueSize):
    """Of a value that a schema describes, where what the schema doesn't limit is ``otherwise`` long."""

    def __init__(self, schema: Schema, otherwise: int) -> None:
        self._schema = schema
        self._otherwise = otherwise
        self.text = schema.type in ("boolean", "integer", "number", "string")
        if schema.type == "string" and schema.enum:
            self.length = max(_length(each) for each in schema.enum)
        elif schema.type == "string":
            self.length = min(otherwise, 4 * _given(schema.max_length, otherwise))
        elif schema.type == "array":
            self.length = min(otherwise, _given(schema.max_items, otherwise))
        elif not self.text:
            self.length = (
                otherwise if schema.additional or schema.preserve_unknown else len(schema.properties)
            )
            self.length = min(self.length, _given(schema.max_properties, self.length))
        self.count = self.weight = 1 if self.text else otherwise

    @property
    def pattern_size(self) -> int:
        return self.length  # As small as it can be: nobody has written an object yet.

    def field(self, name: str) -> ValueSize:
        schema = self._schema.properties.get(name, self._schema.additional)
        return _OfSchema(schema or _ANYTHING, self._otherwise)

    def element(self) -> ValueSize:
        schema = self._schema.items or self._schema.additional
        return _OfSchema(schema or _ANYTHING, self._otherwise)

    def key(self) -> ValueSize:
        return self.element() if self._schema.type == "array" else _text(self._otherwise)


_ANYTHING: Final = Schema(preserve_unknown=True)


def _given(limit: int | None, otherwise: int) -> int:
    return otherwise if limit is None else limit


SCALAR: Final = _Made(0, 1, text=True)


def of_value(value: Any) -> ValueSize:
    """Of a decoded JSON value."""
    return _OfValues([value])


def of_schema(schema: Schema, otherwise: int) -> ValueSize:
    """Of a value that a schema describes; nothing in it is longer than ``otherwise``."""
    return _OfSchema(schema, otherwise)


def of_bytes(size: int) -> ValueSize:
    """Of any value that takes so many bytes as JSON."""
    return _Uniform(size)


def _of_values(values: list[Any]) -> ValueSize:
    if len(values) <= _MANY:
        return _OfValues(values)
    return _Uniform(max(weigh(value)[1] for value in values))


def _length(value: Any) -> int:
    if isinstance(value, str):
        return len(value) if value.isascii() else len(value.encode(errors="surrogatepass"))
    return len(value) if isinstance(value, (dict, list)) else 0


def weigh(value: Any) -> tuple[int, int]:
    """How many values are in a value, itself included, and that with the bytes of their text.

    Takes no stack, however deep it is.
    """
    count = size = 0
    level = [value]
    while level:
        count += len(level)
        below: list[Any] = []
        for each in level:
            if isinstance(each, dict):
                size += sum(map(_length, each))
                below += each.values()
            elif isinstance(each, list):
                below += each
            elif isinstance(each, str):
                size += _length(each)
        level = below
    return count, count + size


def cost(tree: ast.Node, scope: Scope) -> int:
    """What the expression costs at most, in units."""
    return _read(tree, scope)[0]


def _read(tree: ast.Node, scope: Scope) -> Reading:
    match tree:
        case ast.ConstExpr(raw):
            return 1, _text(len(raw))
        case ast.IdentExpr(name):
            return _ROOTS.get(name, 1), scope.get(name, SCALAR)
        case ast.SelectExpr(operand, field, test):
            spent, extent = _read(operand, scope)
            return spent + 2, SCALAR if test else extent.field(field)
        case ast.CallExpr():
            return _call(tree, scope)
        case ast.ListExpr(elements):
            return _collection([_read(each, scope) for each in elements])
        case ast.StructExpr(_, entries):
            keys = [_read(each.key, scope) for each in entries if not isinstance(each.key, str)]
            spent, extent = _collection([_read(each.value, scope) for each in entries])
            return _capped(spent + sum(each for each, _ in keys)), extent
        case ast.Comprehension():
            return _comprehension(tree, scope)


def _collection(parts: Sequence[Reading]) -> Reading:
    spent = sum(each for each, _ in parts) + 4 * len(parts) + 2
    weight = sum(extent.weight for _, extent in parts) + 1
    count = sum(extent.count for _, extent in parts) + 1
    return _capped(spent), _Made(len(parts), weight, _either(*(extent for _, extent in parts)), count=count)


def _comprehension(tree: ast.Comprehension, scope: Scope) -> Reading:
    spent, over = _read(tree.over, scope)
    first, start = _read(tree.start, scope)
    if isinstance(tree.over, ast.ListExpr) and not tree.over.elements:  # cel.bind
        last, extent = _read(tree.result, {**scope, tree.accumulator: start})
        return _capped(spent + first + last), extent
    turns = min(over.length, MAX_TURNS)
    inner = {**scope, tree.variable: over.key(), tree.accumulator: start}
    if tree.second:
        inner[tree.second] = over.element()
    test, _ = _read(tree.condition, inner)
    step, added = _read(tree.step, inner)
    spent += first + turns * (test + step + 4)
    gathered: ValueSize = SCALAR
    if isinstance(
        tree.start, ast.ListExpr
    ):  # map, filter: each turn copies the list that was gathered so far.
        spent += turns * turns // 2
        gathered = _Made(
            turns * added.length, turns * added.weight, added.element(), count=turns * added.count
        )
    last, extent = _read(tree.result, {**inner, tree.accumulator: gathered})
    return _capped(spent + last), extent


def _call(tree: ast.CallExpr, scope: Scope) -> Reading:
    nodes = tree.args if tree.target is None else (tree.target, *tree.args)
    parts = [_read(node, scope) for node in nodes]
    extents = [extent for _, extent in parts]
    if tree.function == "_?_:_" and len(parts) == 3:
        branch = max(parts[1][0], parts[2][0])
        return _capped(parts[0][0] + branch + 1), _either(*extents[1:])
    if tree.function == "_?._" and len(parts) == 2:
        name = ast.literal_text(nodes[1])
        return _capped(parts[0][0] + 4), extents[0].element() if name is None else extents[0].field(name)
    charge = _CHARGES.get(tree.function, _any)
    own, extent = charge(extents, nodes)
    return _capped(sum(each for each, _ in parts) + own + 2), extent


def _capped(spent: int) -> int:
    return min(spent, _MOST)


def _text(length: int) -> ValueSize:
    return _Made(length, length + 1, text=True)


def _either(*extents: ValueSize) -> ValueSize:
    """Of a value that is one or another."""
    if len(extents) < 2:
        return extents[0] if extents else SCALAR
    if all(extent is extents[0] for extent in extents):
        return extents[0]
    weight = max(extent.weight for extent in extents)
    scalar = all(extent.text for extent in extents)
    return _Made(
        max(extent.length for extent in extents),
        weight,
        None if scalar else _Uniform(weight),
        text=scalar,
        count=max(extent.count for extent in extents),
    )


# How each function is charged: its operands' extents and nodes to its cost and the extent of what it returns.

Charge = Callable[[Sequence[ValueSize], Sequence[ast.Node]], Reading]


def _weight(extents: Iterable[ValueSize]) -> int:
    return sum(extent.weight for extent in extents)


def _any(extents: Sequence[ValueSize], nodes: Sequence[ast.Node]) -> Reading:
    """A function of which nothing is known but that it takes linear time."""
    weight = _weight(extents)
    inner = None if all(extent.text for extent in extents) else _Uniform(weight)
    return weight // 4 + 4, _Made(weight, weight, inner, text=inner is None)


def _scalar(extents: Sequence[ValueSize], nodes: Sequence[ast.Node]) -> Reading:
    return 1, SCALAR


def _same(extents: Sequence[ValueSize], nodes: Sequence[ast.Node]) -> Reading:
    return 2, _either(*extents)


def _size(extents: Sequence[ValueSize], nodes: Sequence[ast.Node]) -> Reading:
    return extents[0].length // 40 + 1, SCALAR


def _plus(extents: Sequence[ValueSize], nodes: Sequence[ast.Node]) -> Reading:
    length = sum(extent.length for extent in extents)
    if all(extent.text for extent in extents):
        return length // 16 + 1, _text(length)
    inner = _either(*(extent.element() for extent in extents))
    return 2 * length + 2, _Made(length, _weight(extents), inner, count=sum(each.count for each in extents))


def _compare(extents: Sequence[ValueSize], nodes: Sequence[ast.Node]) -> Reading:
    return _equal(extents[0], extents[-1]), SCALAR


def _equal(one: ValueSize, other: ValueSize) -> int:
    return 8 * min(one.count, other.count) + min(one.weight, other.weight) // 16


def _in(extents: Sequence[ValueSize], nodes: Sequence[ast.Node]) -> Reading:
    wanted, held = extents
    return held.length * _equal(wanted, wanted) + 2, SCALAR


def _at(extents: Sequence[ValueSize], nodes: Sequence[ast.Node]) -> Reading:
    name = ast.literal_text(nodes[1])
    return 4 + extents[1].weight // 8, extents[0].element() if name is None else extents[0].field(name)


def _pass(extents: Sequence[ValueSize], nodes: Sequence[ast.Node]) -> Reading:
    """One pass over a text that yields a part of it, or about as much."""
    weight = _weight(extents)
    return weight // 5 + 4, _text(2 * weight + 64)


def _part(extents: Sequence[ValueSize], nodes: Sequence[ast.Node]) -> Reading:
    return extents[0].length // 10 + 4, _text(extents[0].length)


def _search(extents: Sequence[ValueSize], nodes: Sequence[ast.Node]) -> Reading:
    """Looking for one text in another, or for an element in a list, which is done in Python."""
    listed = 0 if extents[0].text else _OWN + 8 * extents[0].count + extents[0].weight // 8
    return _looking(extents) + listed, SCALAR


def _looking(extents: Sequence[ValueSize]) -> int:
    """Each place may cost a look at the whole of what is wanted."""
    held, wanted = extents[0].length, extents[1].length
    return held // 8 + held * min(wanted, held) // 1500 + 4


def _split(extents: Sequence[ValueSize], nodes: Sequence[ast.Node]) -> Reading:
    length = extents[0].length
    return _looking(extents) + 2 * length + 4, _Made(length + 1, 2 * length + 2, _text(length))


def _replace(extents: Sequence[ValueSize], nodes: Sequence[ast.Node]) -> Reading:
    length = (extents[0].length + 1) * (extents[2].length + 1)
    return _looking(extents) + length // 5 + 4, _text(length)


def _join(extents: Sequence[ValueSize], nodes: Sequence[ast.Node]) -> Reading:
    between = extents[1].length if len(extents) > 1 else 0
    length = extents[0].length * (extents[0].element().length + between)
    length = min(length, extents[0].weight + extents[0].length * between)
    return 2 * extents[0].length + length // 10 + 4, _text(length)


def _format(extents: Sequence[ValueSize], nodes: Sequence[ast.Node]) -> Reading:
    """A number may be printed with 1,000 digits, a map with as many characters as it has."""
    form = ast.literal_text(nodes[0])
    places = extents[0].length if form is None else form.count("%")
    length = extents[0].length + 1400 * places + 16 * _weight(extents[1:])
    return length // 5 + 4, _text(length)


def _regular(extents: Sequence[ValueSize], nodes: Sequence[ast.Node]) -> int:
    """A search by a regular expression: it is compiled, then run over the text."""
    size = _pattern_size(extents, nodes)
    return 4 * size + 100 + extents[0].length * size // 4


def _pattern_size(extents: Sequence[ValueSize], nodes: Sequence[ast.Node]) -> int:
    pattern = ast.literal_text(nodes[1])
    return extents[1].pattern_size if pattern is None else size_of(pattern)


def _matches(extents: Sequence[ValueSize], nodes: Sequence[ast.Node]) -> Reading:
    return _regular(extents, nodes), SCALAR


def _find(extents: Sequence[ValueSize], nodes: Sequence[ast.Node]) -> Reading:
    return _OWN + _regular(extents, nodes), _text(extents[0].length)


def _find_all(extents: Sequence[ValueSize], nodes: Sequence[ast.Node]) -> Reading:
    length = extents[0].length
    again = min(length * length * _pattern_size(extents, nodes) // 8, MAX_STEPS_AGAIN // 4)
    made = _Made(length + 1, 2 * length + 2, _text(length))
    return _OWN + _regular(extents, nodes) + 20 * length + again, made


def _sets(extents: Sequence[ValueSize], nodes: Sequence[ast.Node]) -> Reading:
    one, other = extents[0], extents[1]
    pairs = one.length * other.length
    compared = one.length * other.weight + other.length * one.weight
    return _OWN + 8 * (one.count + other.count) + 8 * pairs + compared // 16, SCALAR


def _list(extents: Sequence[ValueSize], nodes: Sequence[ast.Node]) -> Reading:
    """A pass over a list in Python, which yields one of its elements."""
    return _OWN + 8 * extents[0].count + extents[0].weight // 8, _either(SCALAR, extents[0].element())


def _own(extents: Sequence[ValueSize], nodes: Sequence[ast.Node]) -> Reading:
    """A function over text in Python that yields a scalar or text that isn't longer than a few times the operand."""
    weight = _weight(extents)
    return _OWN + weight, _text(2 * weight + 256)


def _query(extents: Sequence[ValueSize], nodes: Sequence[ast.Node]) -> Reading:
    length = extents[0].length
    return _OWN + 20 * length, _Made(length, 2 * length, _Made(length, 2 * length, _text(length)))


_CHARGES: Final[Mapping[str, Charge]] = {
    **dict.fromkeys((signature.name for signature in FUNCTIONS), _own),
    **dict.fromkeys(("_&&_", "_||_", "!_", "-_", "_-_", "_*_", "_/_", "_%_", "@not_strictly_false"), _scalar),
    **dict.fromkeys(("_==_", "_!=_", "_<_", "_<=_", "_>_", "_>=_"), _compare),
    **dict.fromkeys(("dyn", "optional.of", "optional.ofNonZeroValue", "value", "orValue", "or"), _same),
    **dict.fromkeys(("hasValue", "optional.none"), _scalar),
    "_+_": _plus,
    "size": _size,
    "@in": _in,
    "_[_]": _at,
    "_[?_]": _at,
    **dict.fromkeys(("charAt", "substring", "lowerAscii", "upperAscii", "trim"), _part),
    **dict.fromkeys(("startsWith", "endsWith"), _compare),
    **dict.fromkeys(("contains", "lastIndexOf"), _search),
    "indexOf": _search,
    "split": _split,
    "replace": _replace,
    "join": _join,
    "format": _format,
    "matches": _matches,
    "find": _find,
    "findAll": _find_all,
    **dict.fromkeys(("sets.contains", "sets.equivalent", "sets.intersects"), _sets),
    **dict.fromkeys(("isSorted", "sum", "min", "max"), _list),
    "getQuery": _query,
    **dict.fromkeys(
        (
            "string",
            "bytes",
            "int",
            "uint",
            "double",
            "bool",
            "timestamp",
            "duration",
            "reverse",
            "strings.quote",
        ),
        _pass,
    ),
    **dict.fromkeys(("base64.encode", "base64.decode"), _pass),
}
