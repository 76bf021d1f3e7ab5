"""The maximum cost of evaluating a CEL expression, from its tree and the sizes of its operands.

    cost(tree, {"self": of_value(obj), "oldSelf": of_value(None)})

The evaluator can't be interrupted, holds the GIL and limits only iterations, so cost is bounded before it
runs: each operation is charged by the maximum size of its operands, a branch by its dearer side, a loop by
its list's length. A unit is at most 50 ns, 16 bytes of text or half a list element: ``CALL_LIMIT`` is some 50
ms and 32 MB. Real evaluations mostly take a tenth. A ``ValueSize`` comes from a value (``of_value``), its
bytes as JSON (``of_bytes``) or a schema (``of_schema``).
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
"""The maximum cost of one evaluation of one expression."""
OBJECT_LIMIT: Final = 10_000_000
"""The maximum cost of all rules for one object."""

MAX_TURNS: Final = 10_000
"""The evaluator stops an expression after this many iterations of all its loops."""

_MOST: Final = 10**15
"""Numbers saturate here, so that repeated doubling stays cheap to compute."""
_MANY: Final = 4096
"""Of more values than this only the largest is known."""
_ROOTS: Final = {"self": 16, "oldSelf": 16}
"""A lookup in a value from Python."""
_OWN: Final = 100
"""A call of a function implemented in Python."""
_LARGEST_PATTERN: Final = 200_000
"""The evaluator refuses larger values."""

Reading = tuple[int, "ValueSize"]
Scope = Mapping[str, "ValueSize"]


class ValueSize:
    """How large a value can be.

    ``length``: bytes of a text, or elements of a list or map. ``count``: values in it, including itself.
    ``weight``: ``count`` plus all their bytes. ``text``: True if it can only be text or a scalar.
    """

    length: int = 0
    count: int = 1
    weight: int = 1
    text: bool = False

    @property
    def pattern_size(self) -> int:
        """Its size as a regular expression, with repetitions expanded."""
        return min(self.length * 10_000, _LARGEST_PATTERN)

    def field(self, name: str) -> ValueSize:
        """The size of a field's value."""
        return self.element()

    def element(self) -> ValueSize:
        """The size of any list element or map value."""
        return SCALAR

    def key(self) -> ValueSize:
        """The size of any map key or list element: what a loop variable stands for."""
        return self.element()


class _Made(ValueSize):
    """The size of an expression's result."""

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
    """A value of which only the size as JSON is known, and so of everything in it."""

    def __init__(self, size: int) -> None:
        self.length = self.count = self.weight = size

    def element(self) -> ValueSize:
        return self


class _OfValues(ValueSize):
    """Values at hand, each assumed as large as the largest."""

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
        counts, weights = zip((1, 1), *map(weigh, self._values), strict=True)
        return max(counts), max(weights)

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
    """A value of a schema; what the schema leaves unlimited has the length ``otherwise``."""

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
        return self.length  # The minimum: there is no object yet.

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
    """The size of a decoded JSON value."""
    return _OfValues([value])


def of_schema(schema: Schema, otherwise: int) -> ValueSize:
    """The size of a schema's values; nothing in them is longer than ``otherwise``."""
    return _OfSchema(schema, otherwise)


def of_bytes(size: int) -> ValueSize:
    """The size of any value that takes this many bytes as JSON."""
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
    """The number of values in a value, including itself, and that plus the bytes of their text. Iterative."""
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
    """The maximum cost of the expression, in units."""
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
    if isinstance(tree.start, ast.ListExpr):
        # map, filter: each turn copies the list that was gathered so far.
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
    """The size of a value that is one of two."""
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
    """An unknown function, assumed to take linear time."""
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
    """One pass over a text that returns a part of it, or about as much."""
    weight = _weight(extents)
    return weight // 5 + 4, _text(2 * weight + 64)


def _part(extents: Sequence[ValueSize], nodes: Sequence[ast.Node]) -> Reading:
    return extents[0].length // 10 + 4, _text(extents[0].length)


def _search(extents: Sequence[ValueSize], nodes: Sequence[ast.Node]) -> Reading:
    """A search for a text in a text, or for an element in a list, in Python."""
    listed = 0 if extents[0].text else _OWN + 8 * extents[0].count + extents[0].weight // 8
    return _looking(extents) + listed, SCALAR


def _looking(extents: Sequence[ValueSize]) -> int:
    """Each position may cost a comparison with all of the text searched for."""
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
    """A number may print as 1,000 digits; a map as many characters as it has."""
    form = ast.literal_text(nodes[0])
    places = extents[0].length if form is None else form.count("%")
    length = extents[0].length + 1400 * places + 16 * _weight(extents[1:])
    return length // 5 + 4, _text(length)


def _regular(extents: Sequence[ValueSize], nodes: Sequence[ast.Node]) -> int:
    """A regular expression search: compile, then run over the text."""
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
    """A pass over a list in Python that returns one of its elements."""
    return _OWN + 8 * extents[0].count + extents[0].weight // 8, _either(SCALAR, extents[0].element())


def _own(extents: Sequence[ValueSize], nodes: Sequence[ast.Node]) -> Reading:
    """A text function in Python that returns a scalar, or text of a few times the operand's length."""
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
    **dict.fromkeys(("contains", "indexOf", "lastIndexOf"), _search),
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
    **dict.fromkeys(("string", "bytes", "int", "uint", "double", "bool", "timestamp", "duration"), _pass),
    **dict.fromkeys(("reverse", "strings.quote", "base64.encode", "base64.decode"), _pass),
}
