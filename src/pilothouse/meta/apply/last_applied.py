"""kubectl's last-applied annotation, for clients that move from client-side to server-side apply.

Fields that still are as ``kubectl apply`` recorded them are no conflict for ``kubectl apply --server-side``:
kubectl set them. While the annotation exists it is kept up to date, so that clients can move back.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from pilothouse.meta.apply.comparison import compare, fields_of
from pilothouse.meta.apply.field_sets import Tree, difference
from pilothouse.meta.apply.merge import misfits
from pilothouse.meta.apply.topology import topology
from pilothouse.meta.schema.model import Schema

MANAGER: Final = "kubectl"
ANNOTATION: Final = "kubectl.kubernetes.io/last-applied-configuration"


def agreed_fields(live: dict[str, Any], schema: Schema) -> Tree:
    """The fields applied on the client's side and unchanged since; empty if the annotation can't be read."""
    recorded = _recorded(live)
    node = topology(schema)
    if (
        recorded is None
        or recorded.get("apiVersion") != live.get("apiVersion")
        or any(misfits(recorded, node))
    ):
        return {}
    fields = fields_of(recorded, node)
    for changed in compare(recorded, live, node):
        fields = difference(fields, changed)
    return fields


def refresh(obj: dict[str, Any], patch: dict[str, Any]) -> None:
    """Record the patch in the object's annotation, in place, if the object has one."""
    annotations = obj.get("metadata", {}).get("annotations")
    if type(annotations) is not dict or not annotations.get(ANNOTATION):
        return
    metadata = dict(patch.get("metadata") or {})
    if type(metadata.get("annotations")) is dict:
        metadata["annotations"] = {
            key: value for key, value in metadata["annotations"].items() if key != ANNOTATION
        }
    recorded = {**patch, "metadata": metadata}
    annotations[ANNOTATION] = msgspec.json.encode(recorded, order="deterministic").decode() + "\n"


def _recorded(live: dict[str, Any]) -> dict[str, Any] | None:
    annotations = live.get("metadata", {}).get("annotations")
    text = annotations.get(ANNOTATION) if type(annotations) is dict else None
    if type(text) is not str or not text:
        return None
    try:
        recorded = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return None
    return recorded if type(recorded) is dict else None
