"""Field sets of objects and of changes, as FieldsV1 trees.

    fields_of(patch, node)                  # what an apply claims
    compare(live, new, node).added          # what an update added

Equal parts are not walked, so the cost follows the size of the change.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from types import NoneType
from typing import Any, Final, NamedTuple

from pilothouse.meta.apply.field_sets import MEMBER, SELF, Tree
from pilothouse.meta.apply.topology import (
    FREE,
    LEAF,
    LIST_MAP,
    LISTS,
    MAPS,
    SKIPPED,
    UNDESCRIBED,
    TopologyNode,
)

_MAY_BE_MAPS: Final = (dict, NoneType)


def fields_of(
    obj: dict[str, Any], node: TopologyNode, *, containers: bool = False, ignored: Collection[str] = ()
) -> Tree:
    """The fields that an object sets: leaves, empty containers, list items and map entries.

    With ``containers`` the declared maps and lists in between count too: the writer that created them owns
    them.
    """
    tree: Tree = {}
    for field, value in obj.items():
        name, child, declared = node.child(field)
        if child.kind == SKIPPED or field in ignored:
            continue
        if field == "metadata":
            below = _map_fields(value, child, containers, {}) if type(value) is dict else None
            if below:
                tree[name] = below
        else:
            tree[name] = _fields(value, child, containers, containers or not declared)
    return tree


def _fields(value: Any, node: TopologyNode, containers: bool, marked: bool) -> Tree:
    """The tree below one path; ``marked``: the path itself is a member besides what is below it."""
    kind = node.kind
    if kind == LEAF or not value:
        return MEMBER
    if type(value) is dict and kind in MAPS:
        return _map_fields(value, node, containers, {SELF: MEMBER} if marked else {})
    if type(value) is list and kind in LISTS:
        return _list_fields(value, node, containers, {SELF: MEMBER} if marked else {})
    return MEMBER


def _map_fields(value: dict[str, Any], node: TopologyNode, containers: bool, tree: Tree) -> Tree:
    known = node.declared
    rest = node.rest or UNDESCRIBED
    for field, child in value.items():
        found = known.get(field)
        if found is None:
            if type(child) is dict or type(child) is list:
                tree[f"f:{field}"] = _fields(child, rest, containers, True)
            else:
                tree[f"f:{field}"] = MEMBER
            continue
        name, below = found
        kind = below.kind
        if kind == LEAF:
            tree[name] = MEMBER
        elif kind != SKIPPED:
            tree[name] = _fields(child, below, containers, containers)
    return tree


def _list_fields(value: list[Any], node: TopologyNode, containers: bool, tree: Tree) -> Tree:
    names = node.elements(value)
    if names is None:
        return MEMBER
    for name, item in zip(names, value, strict=True):
        # Items that share a key can only be owned together.
        tree[name] = MEMBER if name in tree else _item_fields(item, node, containers)
    return tree


def _item_fields(item: Any, node: TopologyNode, containers: bool) -> Tree:
    of_item = node.item
    if of_item is None or of_item.kind == LEAF or type(item) is not dict:
        return MEMBER
    return _map_fields(item, of_item, containers, {SELF: MEMBER}) if item else MEMBER


Parts = tuple[Tree, Tree, Tree]
"""Removed, modified and added names below one path, while they are collected."""


class Comparison(NamedTuple):
    """What a change did: the fields that it removed, modified and added."""

    removed: Tree
    modified: Tree
    added: Tree

    def is_empty(self) -> bool:
        return not (self.removed or self.modified or self.added)


def compare(
    old: dict[str, Any], new: dict[str, Any], node: TopologyNode, *, ignored: Collection[str] = ()
) -> Comparison:
    """The difference between two objects, without the top-level fields in ``ignored``."""
    result = Comparison({}, {}, {})
    if ignored:
        old = {field: value for field, value in old.items() if field not in ignored}
        new = {field: value for field, value in new.items() if field not in ignored}
    # Metadata itself has no owner, so it counts as always present.
    if "metadata" not in old:
        old = {"metadata": {}, **old}
    if "metadata" not in new:
        new = {"metadata": {}, **new}
    _compare_maps(old, new, node, result)
    return result


def changes_only(
    old: dict[str, Any], new: dict[str, Any], node: TopologyNode, mine: Tree, others: Sequence[Tree]
) -> bool:
    """True if only leaf values differ, all of them in ``mine`` and none in ``others``.

    Added, removed or moved items and fields make it False; only maps and keyed lists are looked into.
    """
    if len(old) != len(new):
        return False
    for field, after in new.items():
        if field not in old:
            return False
        before = old[field]
        if before is after or before == after:
            continue
        name, child, _ = node.child(field)
        if child.kind != SKIPPED and not _changes_alone(before, after, child, name, mine, others):
            return False
    return True


def _changes_alone(
    before: Any, after: Any, node: TopologyNode, name: str, mine: Tree, others: Sequence[Tree]
) -> bool:
    """The same for one field that differs."""
    owned = mine.get(name)
    if owned is None:
        return False
    shared = [tree[name] for tree in others if name in tree]
    kind, of, to = node.kind, type(before), type(after)
    if kind in MAPS and of is to is dict:
        return changes_only(before, after, node, owned, shared)
    if kind == LIST_MAP and of is to is list:
        return _items_change_only(before, after, node, owned, shared)
    if kind == LEAF or (kind == FREE and of not in _MAY_BE_MAPS and to not in _MAY_BE_MAPS):
        return not shared and (not owned or SELF in owned)
    return False


def _items_change_only(
    before: list[Any], after: list[Any], node: TopologyNode, mine: Tree, others: Sequence[Tree]
) -> bool:
    names = node.elements(before)
    if names is None or node.item is None or len(set(names)) < len(names) or node.elements(after) != names:
        return False
    return all(
        old == new or _changes_alone(old, new, node.item, name, mine, others)
        for name, old, new in zip(names, before, after, strict=True)
    )


def _compare_maps(old: dict[str, Any], new: dict[str, Any], node: TopologyNode, result: Parts) -> None:
    shared = 0
    for field, after in new.items():
        if field in old:
            shared += 1
            before = old[field]
            if before is after or before == after:
                continue
            name, child, _ = node.child(field)
            _compare_values(before, after, child, name, result)
        else:
            _note(result[2], field, after, node)
    if shared < len(old):
        for field, before in old.items():
            if field not in new:
                _note(result[0], field, before, node)


def _note(tree: Tree, field: str, value: Any, node: TopologyNode) -> None:
    """Everything at and below a field that only one side has."""
    name, child, _ = node.child(field)
    if child.kind != SKIPPED:
        tree[name] = _fields(value, child, True, True)


def _compare_values(before: Any, after: Any, node: TopologyNode, name: str, result: Parts) -> None:
    kind = node.kind
    removed, modified, added = result
    if kind == SKIPPED:
        return
    if kind in MAPS:
        if _both(dict, before, after):
            below: Parts = ({}, {}, {})
            _compare_maps(before or {}, after or {}, node, below)
            _graft(below, name, result)
            return
        if kind == FREE:
            # A text became a map, or the other way round: the fields of the map came or went as well.
            if type(before) is dict and before:
                removed[name] = _map_fields(before, node, True, {})
            if type(after) is dict and after:
                added[name] = _map_fields(after, node, True, {})
    elif kind in LISTS and _both(list, before, after):
        names_before, names_after = node.elements(before or []), node.elements(after or [])
        if names_before is not None and names_after is not None:
            below = ({}, {}, {})
            _compare_items(
                _grouped(names_before, before or []), _grouped(names_after, after or []), node, below
            )
            _graft(below, name, result)
            return
    modified[name] = MEMBER


def _both(container: type, before: Any, after: Any) -> bool:
    """True if both are such containers (null counts as empty) and not both are empty."""
    return (
        (type(before) is container or before is None)
        and (type(after) is container or after is None)
        and bool(before or after)
    )


def _graft(below: Parts, name: str, result: Parts) -> None:
    for part, whole in zip(below, result, strict=True):
        if part:
            whole[name] = part


def _grouped(names: list[str], items: list[Any]) -> dict[str, list[Any]]:
    groups: dict[str, list[Any]] = {}
    for name, item in zip(names, items, strict=True):
        groups.setdefault(name, []).append(item)
    return groups


def _compare_items(
    old: dict[str, list[Any]], new: dict[str, list[Any]], node: TopologyNode, result: Parts
) -> None:
    """Items by key. Items that share a key are compared together; order does not matter."""
    removed, modified, added = result
    for name in old | new:
        before, after = old.get(name, []), new.get(name, [])
        if before == after:
            continue
        if len(before) == len(after) == 1 and node.item is not None:
            _compare_values(before[0], after[0], node.item, name, result)
        elif len(before) > 1 and len(after) > 1:
            modified[name] = MEMBER
        else:
            if before:
                removed[name] = MEMBER if len(before) > 1 else _item_fields(before[0], node, True)
            if after:
                added[name] = MEMBER if len(after) > 1 else _item_fields(after[0], node, True)
