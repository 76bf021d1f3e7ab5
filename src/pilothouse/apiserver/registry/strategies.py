"""Kinds that mean something to the server itself: what ``api`` says of them is joined with what only a server can do.

A definition is settled against the catalogue, a service is given an address. Whoever does that offers some of the hooks
of a ``Kind`` under their names; they run after the kind's own.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from itertools import chain
from typing import Any

from pilothouse.apiserver.discovery.catalog import KindCatalog
from pilothouse.meta.fields import FieldError
from pilothouse.meta.kind import Object

_PREPARING = ("complete", "prepare_delete")


def register_strategy(catalog: KindCatalog, group: str, plural: str, keeper: object) -> None:
    """Have ``keeper``'s hooks run whenever an object of this resource is written; nothing if it is not served."""
    resource = catalog.resource(group, plural)
    if resource is None:
        return
    kinds = []
    for kind in resource.kinds:
        hooks: dict[str, Any] = {
            name: _in_turn(getattr(kind, name), getattr(keeper, name))
            for name in _PREPARING
            if hasattr(keeper, name)
        }
        if hasattr(keeper, "validate"):
            hooks["validate"] = _together(kind.validate, keeper.validate)
        kinds.append(dataclasses.replace(kind, **hooks))
    catalog.add(dataclasses.replace(resource, kinds=tuple(kinds)))


def _in_turn(first: Callable[..., None], second: Callable[..., None]) -> Callable[..., None]:
    def prepare(*objects: Object | None) -> None:
        first(*objects)
        second(*objects)

    return prepare


Validate = Callable[[Object, Object | None], Iterable[FieldError]]


def _together(first: Validate, second: Validate) -> Validate:
    def validate(new: Object, old: Object | None) -> Iterable[FieldError]:
        return chain(first(new, old), second(new, old))

    return validate
