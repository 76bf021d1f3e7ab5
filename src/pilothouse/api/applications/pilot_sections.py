"""What an application adds to the Pilot kind."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from pilothouse.meta.fields import FieldError
from pilothouse.meta.kind import Column


def _no_problems(section: Mapping[str, Any], path: str) -> Iterable[FieldError]:
    return ()


class PilotSections(msgspec.Struct, frozen=True, kw_only=True):
    """The sections ``spec.<name>`` and ``status.<name>``, each as a Struct
    (``pilothouse.meta.schema.struct_schemas.Fields``).

    None means that there is no such section. A section that is not described is kept as it is written.
    """

    spec: Any = dict[str, Any]
    status: Any = dict[str, Any]
    columns: tuple[Column, ...] = ()
    """Columns of ``kubectl get pilots``; wide if of one application only."""
    validate: Callable[[Mapping[str, Any], str], Iterable[FieldError]] = _no_problems
    """Problems of the ``spec`` section that a schema can't express; the second argument is its path."""
