"""The schema of a Pilot: shared fields, and each application's sections in spec and status."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import msgspec

from pilothouse.api.applications.descriptor import Application
from pilothouse.api.applications.pilot_sections import PilotSections
from pilothouse.api.applications.registry import BUILT_IN, InvalidApplication, applications
from pilothouse.api.navigator import v1beta1
from pilothouse.meta.fields import FieldError
from pilothouse.meta.kind import Column
from pilothouse.meta.schema.model import Schema
from pilothouse.meta.schema.struct_schemas import schema_of


def sections_of(application: Application) -> PilotSections:
    return application.sections() if application.sections is not None else PilotSections()


def pilot_schema() -> Schema:
    """The schema of ``v1beta1``. Raises ``InvalidApplication`` if one is named like a shared field."""
    schema = schema_of(v1beta1.Pilot, v1beta1.PACKAGE)
    parts = {part: _with_sections(schema.properties[part], part) for part in ("spec", "status")}
    return replace(schema, properties={**schema.properties, **parts})


def section_columns() -> Iterator[Column]:
    """The columns of all applications."""
    for application in applications():
        yield from sections_of(application).columns


def check_sections(spec: Mapping[str, Any]) -> Iterator[FieldError]:
    """The applications' own checks of their sections."""
    for application in applications():
        if section := spec.get(application.name):
            yield from sections_of(application).validate(section, f"spec.{application.name}")


def _with_sections(node: Schema, part: str) -> Schema:
    shared = node.component or node
    found = dict(shared.properties)
    for application in applications():
        if application.name in shared.properties:
            raise InvalidApplication(
                f"application {application.name!r}: {part}.{application.name} is a field of all Pilots"
            )
        section = _section(application, getattr(sections_of(application), part))
        if section is not None:
            found[application.name] = section
    whole = replace(shared, properties=found)
    return replace(whole, description=node.description, default=node.default, component=whole)


def _section(application: Application, described: Any) -> Schema | None:
    if described is None:
        return None
    text = f"For {application.summary or application.name}."
    if isinstance(described, type) and issubclass(described, msgspec.Struct):
        # Structs of different packages may have the same name.
        package = v1beta1.PACKAGE if application in BUILT_IN else f"{v1beta1.PACKAGE}.{application.name}"
        own = schema_of(described, package)
        return replace(own, description=text, component=own)
    return Schema(type="object", preserve_unknown=True, description=text)
