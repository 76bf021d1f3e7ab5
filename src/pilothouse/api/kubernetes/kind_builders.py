"""How one of Kubernetes' own kinds is declared.

    SECRET = native("v1", "Secret", columns=COLUMNS, validate=validate)

The schema and the protobuf message come from the table; quantities and times are normalised for every kind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from pilothouse.api.kubernetes.normalization import Normaliser
from pilothouse.api.kubernetes.protobuf_bodies import table_name
from pilothouse.api.kubernetes.table import protobuf_name, schema
from pilothouse.meta.fields import FieldError
from pilothouse.meta.kind import Kind, Object

CREATE_ONLY = ("create",)


def native(
    api_version: str,
    name: str,
    *,
    plural: str = "",
    message: str = "",
    default: Callable[[Object], None] = lambda obj: None,
    validate: Callable[[Object, Object | None], Iterable[FieldError]] = lambda new, old: (),
    generation: bool = False,
    unconditional_update: bool = True,
    status_metadata: tuple[str, ...] = ("labels", "annotations"),
    **traits: Any,
) -> Kind:
    """A kind whose fields the table knows; ``message`` only where the table has it under another version."""
    group, _, version = api_version.rpartition("/")
    table = message or table_name(group, version, name)
    node = schema(table)
    normaliser = Normaliser(node)

    def fill_in(obj: Object) -> None:
        # Quantities first: what depends on other fields may compare or copy them.
        normaliser.apply(obj)
        default(obj)

    def check(new: Object, old: Object | None) -> list[FieldError]:
        return [*normaliser.problems(new), *validate(new, old)]

    return Kind(
        group=group,
        version=version,
        name=name,
        plural=plural or f"{name.lower()}s",
        singular=name.lower(),
        schema=node,
        native=True,
        message=protobuf_name(table),
        default=fill_in,
        validate=check,
        generation=generation,
        unconditional_update=unconditional_update,
        status_metadata=status_metadata,
        **traits,
    )


def review(api_version: str, name: str, *, namespaced: bool = False, **traits: Any) -> Kind:
    """A question that is answered and never stored."""
    return native(api_version, name, namespaced=namespaced, virtual=True, verbs=CREATE_ONLY, **traits)
