"""Sets of field paths, as the FieldsV1 trees of ``managedFields``.

    mine = {"f:spec": {"f:replicas": {}, "f:tags": {'v:"x"': {}}}}
    list(paths(mine))                     # ['.spec.replicas', '.spec.tags[="x"]']
    union(mine, yours), difference(mine, yours), intersection(mine, yours)

A name with an empty tree is a member; one with a non-empty tree is a member only if that tree has a ``"."``.
The empty tree at the root is the empty set. Trees are never changed in place; an operation that changes
nothing returns the same tree, so ``is`` tells whether there is something to write.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

Tree = dict[str, Any]

MEMBER: Final[Tree] = {}
"""A member without members below it."""
SELF: Final = "."
"""Marks a path with members below it as a member itself."""
_ONLY_SELF: Final[Tree] = {SELF: MEMBER}
_DEEPEST: Final = 256
_ORDER: Final = {"f": 0, "k": 1, "v": 2, "i": 3}


def union(left: Tree, right: Tree) -> Tree:
    """Paths in either."""
    if left is right:
        return left
    merged = None
    for name, theirs in right.items():
        ours = left.get(name)
        if ours is None:
            both = theirs
        elif not theirs:
            both = ours if not ours or SELF in ours else {SELF: MEMBER, **ours}
        elif not ours:
            both = theirs if SELF in theirs else {SELF: MEMBER, **theirs}
        else:
            both = union(ours, theirs)
        if both is not ours:
            if merged is None:
                merged = dict(left)
            merged[name] = both
    return left if merged is None else merged


def difference(left: Tree, right: Tree) -> Tree:
    """Paths in the first but not in the second."""
    changed = None
    for name in right if len(right) < len(left) else left:
        ours, theirs = left.get(name), right.get(name)
        if ours is None or theirs is None:
            continue
        rest = _less(ours, theirs)
        if rest is ours:
            continue
        if changed is None:
            changed = dict(left)
        if rest is None:
            del changed[name]
        else:
            changed[name] = rest
    return left if changed is None else changed


def _less(ours: Tree, theirs: Tree) -> Tree | None:
    """What is left below one name; None if nothing is, including the name itself."""
    if not ours:
        return None if not theirs or SELF in theirs else ours
    rest = difference(ours, theirs or _ONLY_SELF)
    return ours if rest is ours else _normal(rest)


def intersection(left: Tree, right: Tree) -> Tree:
    """Paths in both."""
    if left is right:
        return left
    common: Tree = {}
    for name, ours in left.items():
        theirs = right.get(name)
        if theirs is None:
            continue
        if not ours or not theirs:
            if (not ours or SELF in ours) and (not theirs or SELF in theirs):
                common[name] = MEMBER
            continue
        below = _normal(intersection(ours, theirs))
        if below is not None:
            common[name] = below
    return common


def without(owned: Tree, changed: Tree) -> Tree:
    """What an owner keeps when others change ``changed``.

    Unlike a difference, a changed leaf also removes everything below it: the leaf is atomic now, and was not
    when the fields below it were recorded.
    """
    result = None
    for name, theirs in changed.items():
        ours = owned.get(name)
        if ours is None:
            continue
        if not theirs or (not ours and SELF in theirs):
            rest = None
        elif not ours:
            continue
        else:
            rest = without(ours, theirs)
            if rest is ours:
                continue
            rest = _normal(rest)
        if result is None:
            result = dict(owned)
        if rest is None:
            del result[name]
        else:
            result[name] = rest
    return owned if result is None else result


def _normal(below: Tree) -> Tree | None:
    """The normal form of what is below a name; None if the name is no member and has none below it."""
    if not below:
        return None
    return MEMBER if len(below) == 1 and SELF in below else below


def paths(tree: Tree) -> Iterator[str]:
    """The members in the form that messages use (``.spec.users[name="u1"].role``), in a stable order."""
    return _paths(tree, "")


def _paths(tree: Tree, prefix: str) -> Iterator[str]:
    for name in sorted(tree, key=lambda name: (_ORDER.get(name[:1], 4), name)):
        if name == SELF:
            continue
        below = tree[name]
        path = prefix + readable(name)
        if not below or SELF in below:
            yield path
        yield from _paths(below, path)


def readable(name: str) -> str:
    """One element of a path: ``.role`` of ``f:role``, ``[name="u1"]`` of ``k:{"name":"u1"}``."""
    kind, _, text = name.partition(":")
    match kind:
        case "f":
            return f".{text}"
        case "k":
            keys = msgspec.json.decode(text)
            return f"[{','.join(f'{key}={_text(value)}' for key, value in keys.items())}]"
        case "v":
            return f"[={text}]"
    return f"[{text}]"


def _text(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def parse_fields(tree: Any) -> Tree:
    """A tree from a client, checked and in normal form. Raises ValueError."""
    return _parse(tree, 0)


def _parse(tree: Any, depth: int) -> Tree:
    if type(tree) is not dict or depth > _DEEPEST:
        raise ValueError("fieldsV1 must be a tree of objects")
    parsed = {}
    for name, below in tree.items():
        if name != SELF:
            kind, colon, text = name.partition(":")
            if not colon or kind not in _ORDER:
                raise ValueError(f"fieldsV1 has a name {name!r} that does not begin with f:, k:, v: or i:")
            if kind in ("k", "v"):
                _check_value(kind, text)
            elif kind == "i" and not text.lstrip("-").isdecimal():
                raise ValueError(f"fieldsV1 has an index {text!r} that is no number")
        parsed[name] = _parse(below, depth + 1)
    return MEMBER if depth and len(parsed) == 1 and SELF in parsed else parsed


def _check_value(kind: str, text: str) -> None:
    try:
        value = msgspec.json.decode(text)
    except msgspec.DecodeError:
        raise ValueError(f"fieldsV1 has a {kind}: name that is not JSON: {text!r}") from None
    if (type(value) is dict) != (kind == "k") or type(value) is list:
        raise ValueError(f"fieldsV1 has a {kind}: name of the wrong type: {text!r}")
