"""Rules of a Pilot."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pilothouse.api.navigator.pilot_schema import check_sections
from pilothouse.api.navigator.pilots import contradicts
from pilothouse.api.navigator.validation.clusters import Problems
from pilothouse.meta import names
from pilothouse.meta.fields import FieldError, entry


def check_pilot(new: Mapping[str, Any], old: Mapping[str, Any] | None) -> Problems:
    spec = new.get("spec") or {}
    if contradicts(spec):
        yield FieldError.invalid(
            "spec.inService",
            spec["inService"],
            f"contradicts decommission, which is {str(spec['decommission']).lower()} too; "
            "give only one of them",
        )
    application = spec.get("application")
    if application is not None and (problem := names.label(application)):
        yield FieldError.invalid("spec.application", application, problem)
    for name in (spec.get("configuration") or {}).get("files") or {}:
        if not name or name in (".", "..") or "/" in name or "\0" in name:
            where = entry("spec.configuration.files", name)
            yield FieldError.invalid(where, name, "must be the plain name of a file, without a folder")
    yield from check_sections(spec)
