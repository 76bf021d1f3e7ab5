"""The schema model: one tree for pruning, defaulting, validation, apply, OpenAPI and CRDs.

Schemas come from the Structs of our kinds, the table of Kubernetes' kinds, and the ``openAPIV3Schema`` of
CRDs. Nodes are frozen and shared: a node with a ``ref`` is a named component
(``io.k8s.api.core.v1.PodSpec``), published once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final


class Unset:
    """No default, as opposed to a default of null."""

    def __repr__(self) -> str:
        return "UNSET"

    def __bool__(self) -> bool:
        return False


UNSET: Final = Unset()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ValidationRule:
    """One ``x-kubernetes-validations`` entry: a CEL expression over ``self`` (and ``oldSelf``)."""

    rule: str
    message: str = ""
    message_expression: str = ""
    reason: str = ""
    field_path: str = ""
    optional_old_self: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Schema:
    """One node. An empty ``type`` means any value (only with ``preserve_unknown`` or ``int_or_string``)."""

    type: str = ""
    ref: str = ""
    """The full name of the component that this node is."""
    component: Schema | None = None
    """The component, if this node is a use of it with its own description or default."""
    title: str = ""
    description: str = ""
    format: str = ""

    properties: Mapping[str, Schema] = field(default_factory=dict)
    additional: Schema | None = None
    """The schema of map values (``additionalProperties``)."""
    items: Schema | None = None
    required: tuple[str, ...] = ()
    nullable: bool = False
    default: Any = UNSET

    enum: tuple[Any, ...] = ()
    minimum: float | int | None = None
    maximum: float | int | None = None
    exclusive_minimum: bool = False
    exclusive_maximum: bool = False
    multiple_of: float | int | None = None
    min_length: int | None = None
    max_length: int | None = None
    pattern: str = ""
    min_items: int | None = None
    max_items: int | None = None
    min_properties: int | None = None
    max_properties: int | None = None

    all_of: tuple[Schema, ...] = ()
    any_of: tuple[Schema, ...] = ()
    one_of: tuple[Schema, ...] = ()
    not_: Schema | None = None

    preserve_unknown: bool = False
    embedded_resource: bool = False
    int_or_string: bool = False
    list_type: str = ""
    """``atomic``, ``set`` or ``map``; empty means atomic."""
    list_map_keys: tuple[str, ...] = ()
    map_type: str = ""
    """``granular`` or ``atomic``; empty means granular."""
    rules: tuple[ValidationRule, ...] = ()

    merge_key: str = ""
    """``x-kubernetes-patch-merge-key``, for strategic merge."""
    merge_strategy: str = ""
    """``x-kubernetes-patch-strategy``: ``merge``, ``replace``, ``retainKeys`` or ``merge,retainKeys``."""


ANY: Final = Schema(preserve_unknown=True)
