"""The syntax tree of a CEL expression, read from and written to the compiler's serialized form.

    tree = read(expression.serialize())
    expression = env.deserialize(write(tree))

The form is protobuf ``cel.expr.ParsedExpr``, without source positions. Rules are rewritten as trees, for
field names that are no CEL identifiers and values that JSON can't express.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pilothouse.base.protobuf_wire import BYTES, VARINT, delimited, fields, tag, varint


@dataclass(frozen=True, slots=True)
class ConstExpr:
    """A literal; ``raw`` is its encoded form."""

    raw: bytes


@dataclass(frozen=True, slots=True)
class IdentExpr:
    name: str


@dataclass(frozen=True, slots=True)
class SelectExpr:
    """``operand.field``; with ``test`` it is ``has(operand.field)``."""

    operand: Node
    field: str
    test: bool = False


@dataclass(frozen=True, slots=True)
class CallExpr:
    """``function(args)`` or ``target.function(args)``; operators are functions such as ``_+_``."""

    function: str
    args: tuple[Node, ...]
    target: Node | None = None


@dataclass(frozen=True, slots=True)
class ListExpr:
    elements: tuple[Node, ...]
    optional: bytes = b""


@dataclass(frozen=True, slots=True)
class MapEntry:
    key: Node | str
    value: Node
    optional: bool = False


@dataclass(frozen=True, slots=True)
class StructExpr:
    """A map literal, or a message if it has a name."""

    name: str
    entries: tuple[MapEntry, ...]


@dataclass(frozen=True, slots=True)
class Comprehension:
    """What ``all``, ``exists``, ``map``, ``filter`` and ``cel.bind`` expand to."""

    variable: str
    over: Node
    accumulator: str
    start: Node
    condition: Node
    step: Node
    result: Node
    second: str = ""


Node = ConstExpr | IdentExpr | SelectExpr | CallExpr | ListExpr | StructExpr | Comprehension

_PARSED = b"type.googleapis.com/cel.expr.ParsedExpr"


def text(value: str) -> ConstExpr:
    """A string literal."""
    return ConstExpr(_field(6, value.encode()))


def literal_text(node: Node) -> str | None:
    """The value of a string literal; None for other nodes."""
    if isinstance(node, ConstExpr):
        for number, value in fields(node.raw):
            if number == 6 and isinstance(value, bytes):
                return value.decode()
    return None


def read(serialized: bytes) -> Node:
    """The tree inside a serialized expression, checked or not."""
    envelope = dict(fields(serialized))
    message = dict(fields(_bytes(envelope[2])))
    checked = _bytes(envelope[1]).endswith(b"CheckedExpr")
    return _node(_bytes(message[4 if checked else 2]))


def write(tree: Node) -> bytes:
    """The serialized form of an unchecked expression."""
    parsed = _field(2, _Writer().node(tree))
    return _field(1, _PARSED) + _field(2, parsed)


def children(tree: Node) -> Iterator[Node]:
    """The nodes right below a node."""
    match tree:
        case SelectExpr(operand):
            yield operand
        case CallExpr(_, args, target):
            yield from args
            if target is not None:
                yield target
        case ListExpr(elements):
            yield from elements
        case StructExpr(_, entries):
            for entry in entries:
                if not isinstance(entry.key, str):
                    yield entry.key
                yield entry.value
        case Comprehension():
            yield from (tree.over, tree.start, tree.condition, tree.step, tree.result)


def mentions(tree: Node, name: str) -> bool:
    """True if the tree uses the identifier."""
    if isinstance(tree, IdentExpr):
        return tree.name == name
    return any(mentions(each, name) for each in children(tree))


def fields_of(tree: Node, name: str) -> frozenset[str] | None:
    """The fields of a variable that the tree reads; None if it also uses the variable as a whole."""
    match tree:
        case IdentExpr(found):
            return None if found == name else frozenset()
        case SelectExpr(IdentExpr(found), field) if found == name:
            return frozenset((field,))
    found_fields: set[str] = set()
    for each in children(tree):
        inner = fields_of(each, name)
        if inner is None:
            return None
        found_fields |= inner
    return frozenset(found_fields)


def _bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise ValueError("a number where a serialized expression has a message")
    return value


def _node(data: bytes) -> Node:
    for number, value in fields(data):
        if number in _READERS:
            return _READERS[number](_bytes(value))
    return ConstExpr(b"")


def _ident(data: bytes) -> Node:
    return IdentExpr(_bytes(dict(fields(data))[1]).decode())


def _select(data: bytes) -> Node:
    parts = dict(fields(data))
    return SelectExpr(_node(_bytes(parts[1])), _bytes(parts[2]).decode(), bool(parts.get(3)))


def _call(data: bytes) -> Node:
    target: Node | None = None
    function, args = "", []
    for number, value in fields(data):
        if number == 1:
            target = _node(_bytes(value))
        elif number == 2:
            function = _bytes(value).decode()
        elif number == 3:
            args.append(_node(_bytes(value)))
    return CallExpr(function, tuple(args), target)


def _array(data: bytes) -> Node:
    elements, optional = [], b""
    for number, value in fields(data):
        if number == 1:
            elements.append(_node(_bytes(value)))
        elif number == 2:
            optional += _field(2, value)
    return ListExpr(tuple(elements), optional)


def _struct(data: bytes) -> Node:
    name, entries = "", []
    for number, value in fields(data):
        if number == 1:
            name = _bytes(value).decode()
        elif number == 2:
            parts = dict(fields(_bytes(value)))
            key: Node | str = _bytes(parts[2]).decode() if 2 in parts else _node(_bytes(parts[3]))
            entries.append(MapEntry(key, _node(_bytes(parts[4])), bool(parts.get(5))))
    return StructExpr(name, tuple(entries))


def _comprehension(data: bytes) -> Node:
    parts = dict(fields(data))
    return Comprehension(
        variable=_bytes(parts[1]).decode(),
        over=_node(_bytes(parts[2])),
        accumulator=_bytes(parts[3]).decode(),
        start=_node(_bytes(parts[4])),
        condition=_node(_bytes(parts[5])),
        step=_node(_bytes(parts[6])),
        result=_node(_bytes(parts[7])),
        second=_bytes(parts.get(8, b"")).decode(),
    )


_READERS = {3: ConstExpr, 4: _ident, 5: _select, 6: _call, 7: _array, 8: _struct, 9: _comprehension}


def _field(number: int, value: int | bytes) -> bytes:
    if isinstance(value, int):
        return tag(number, VARINT) + varint(value)
    return tag(number, BYTES) + delimited(value)


class _Writer:
    """Numbers nodes; the evaluator needs unique ids."""

    def __init__(self) -> None:
        self.last = 0

    def node(self, tree: Node) -> bytes:
        kind, body = self.body(tree)
        self.last += 1
        return _field(2, self.last) + _field(kind, body)

    def body(self, tree: Node) -> tuple[int, bytes]:
        match tree:
            case ConstExpr(raw):
                return 3, raw
            case IdentExpr(name):
                return 4, _field(1, name.encode())
            case SelectExpr(operand, field, test):
                return 5, _field(1, self.node(operand)) + _field(2, field.encode()) + (
                    _field(3, 1) if test else b""
                )
            case CallExpr(function, args, target):
                body = b"" if target is None else _field(1, self.node(target))
                return 6, body + _field(2, function.encode()) + b"".join(
                    _field(3, self.node(arg)) for arg in args
                )
            case ListExpr(elements, optional):
                return 7, b"".join(_field(1, self.node(each)) for each in elements) + optional
            case StructExpr(name, entries):
                return 8, _field(1, name.encode()) + b"".join(_field(2, self.entry(each)) for each in entries)
            case Comprehension():
                parts = (tree.over, tree.start, tree.condition, tree.step, tree.result)
                over, start, condition, step, result = (self.node(part) for part in parts)
                return 9, b"".join(
                    (
                        _field(1, tree.variable.encode()),
                        _field(2, over),
                        _field(3, tree.accumulator.encode()),
                        _field(4, start),
                        _field(5, condition),
                        _field(6, step),
                        _field(7, result),
                        _field(8, tree.second.encode()) if tree.second else b"",
                    )
                )

    def entry(self, entry: MapEntry) -> bytes:
        key = _field(2, entry.key.encode()) if isinstance(entry.key, str) else _field(3, self.node(entry.key))
        value = _field(4, self.node(entry.value))
        self.last += 1
        return _field(1, self.last) + key + value + (_field(5, 1) if entry.optional else b"")
