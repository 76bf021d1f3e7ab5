"""How a kind of our own groups is declared.

    PLANS = GroupVersion("autopilot.k0sproject.io", "v1beta2", package="io.k0sproject.autopilot.v1beta2")
    PLAN = PLANS.kind(Plan, columns=(path_column("State", ".status.state", "How far the plan is."), AGE))

The kind is named like the Struct that has its fields; further arguments are those of ``meta.kind.Kind``.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from pilothouse.meta.kind import Column, Kind
from pilothouse.meta.object_meta import ApiObject
from pilothouse.meta.schema.model import Schema
from pilothouse.meta.schema.struct_schemas import schema_of

CATEGORIES: Final = ("all", "pilothouse")


class GroupVersion(NamedTuple):
    """One version of a group; ``package`` begins the names of its components."""

    group: str
    version: str
    package: str

    def kind(
        self,
        struct: type[ApiObject],
        *,
        plural: str = "",
        schema: Schema | None = None,
        categories: tuple[str, ...] = CATEGORIES,
        status: bool = True,
        **traits: Any,
    ) -> Kind:
        """A kind; ``schema`` replaces that of the Struct."""
        return Kind(
            group=self.group,
            version=self.version,
            name=struct.__name__,
            plural=plural or f"{struct.__name__.lower()}s",
            schema=schema or schema_of(struct, self.package),
            categories=categories,
            status=status,
            **traits,
        )


def path_column(
    name: str, path: str, description: str, *, type: str = "string", wide: bool = False
) -> Column:
    """A column with the value at a JSONPath; a wide one is shown with ``-o wide``."""
    return Column(name=name, type=type, path=path, description=description, priority=1 if wide else 0)


def condition_column(
    name: str, condition: str, description: str, *, field: str = "status", wide: bool = False
) -> Column:
    """A column with a field of a status condition."""
    return path_column(name, f'.status.conditions[?(@.type=="{condition}")].{field}', description, wide=wide)


AGE: Final = path_column("Age", ".metadata.creationTimestamp", "Time since it was created.", type="date")
