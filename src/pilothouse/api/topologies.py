"""``allowedTopologies`` of a storage class.

allows(storage_class, node.labels)      # True if the class has no topologies, or one matches the labels
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pilothouse.api.objects import Object


def allows(storage_class: Object, labels: Mapping[str, str]) -> bool:
    """True if a node with these labels may have volumes of a class."""
    topologies = storage_class.get("allowedTopologies") or ()
    return not topologies or any(_within(one, labels) for one in topologies)


def _within(topology: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    return all(
        labels.get(one.get("key", "")) in (one.get("values") or ())
        for one in topology.get("matchLabelExpressions") or ()
    )
