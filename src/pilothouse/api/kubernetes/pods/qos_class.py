"""The quality of service class of a pod: which pod is killed first when memory runs short."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pilothouse.api.kubernetes.shared_checks import amount

_COUNTED = ("cpu", "memory")


def quality_of_service(spec: Mapping[str, Any]) -> str:
    """``Guaranteed`` if limits equal requests, ``BestEffort`` if there are none, else ``Burstable``."""
    containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    asked = [_of(container, "requests") for container in containers]
    limited = [_of(container, "limits") for container in containers]
    if not any(asked) and not any(limited):
        return "BestEffort"
    for requests, limits in zip(asked, limited, strict=True):
        if set(limits) != set(_COUNTED) or any(
            requests.get(name, limits[name]) != limits[name] for name in _COUNTED
        ):
            return "Burstable"
    return "Guaranteed"


def _of(container: Mapping[str, Any], side: str) -> dict[str, Any]:
    amounts = (container.get("resources") or {}).get(side) or {}
    found = {name: amount(amounts[name]) for name in _COUNTED if name in amounts}
    return {name: value for name, value in found.items() if value}
