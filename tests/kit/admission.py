"""A write as far as an object's kind has a say in it, without a server.

    found = admit(kind, {"metadata": {"name": "a"}, "spec": {}})
    found.problems    # every FieldError
    found.unknown     # the paths of fields that were pruned
    found.obj         # the object as it would be stored

The steps and their order are those of the API server: prune, default, prepare, validate the shape, then the rules
of the kind, which may rely on the shape.
"""

from __future__ import annotations

import copy
from typing import Any, NamedTuple

from pilothouse.meta.fields import FieldError
from pilothouse.meta.kind import Kind
from pilothouse.meta.names import validate_object_meta


class Admission(NamedTuple):
    obj: dict[str, Any]
    unknown: list[str]
    problems: list[FieldError]

    @property
    def paths(self) -> list[str]:
        return sorted({problem.path for problem in self.problems})

    def reasons_at(self, path: str) -> list[str]:
        return [problem.reason for problem in self.problems if problem.path == path]


def admit(kind: Kind, obj: dict[str, Any], old: dict[str, Any] | None = None) -> Admission:
    """Create ``obj``, or update ``old`` (as ``admit`` returned it) to it."""
    new = copy.deepcopy(obj)
    new["apiVersion"], new["kind"] = kind.api_version, kind.name
    metadata = new.setdefault("metadata", {})
    metadata.setdefault("name", "test")
    if kind.namespaced:
        metadata.setdefault("namespace", "default")
    else:
        metadata.pop("namespace", None)
    unknown = kind.shape.prune(new)
    kind.shape.default(new)
    kind.default(new)
    if old is None:
        kind.prepare_create(new)
    else:
        kind.prepare_update(new, old)
    problems = kind.shape.validate(new, old)
    problems += validate_object_meta(metadata, namespaced=kind.namespaced, name_rule=kind.validate_name)
    if not problems:
        problems = list(kind.validate(new, old))
    return Admission(new, unknown, problems)
