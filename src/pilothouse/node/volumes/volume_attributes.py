"""The parameters of a VolumeAttributesClass: limits, place and allocation of a volume.

    attributes = read_attributes({"tier": "fast", "iops": "500", "keep": "10m"}, LOOP, size)
    attributes.tier                                 # "fast"; empty: it stays where it is
    throttle(attributes.limits, "7:0", size)

``keep`` and ``deadline`` are for moves between tiers (``volume_mover``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from pilothouse.api.local_volumes import DIRECTORY
from pilothouse.base.duration import parse_duration
from pilothouse.node.volumes.throttles import LIMITS, ThrottleError, throttle

KEEP: Final = 3600.0
"""Seconds that a pod has been ready before the old copy is removed."""
DEADLINE: Final = 600.0
"""Seconds from the switch until a pod has to be ready."""
RESERVED: Final = "reserved"
SPARSE: Final = "sparse"
_OTHERS: Final = ("tier", "allocation", "keep", "deadline")


class AttributesError(ValueError):
    """Invalid parameters; the message has the path of the field."""


class VolumeAttributes(msgspec.Struct, frozen=True):
    limits: Mapping[str, str] = {}
    tier: str = ""
    allocation: str = ""
    """``reserved`` or ``sparse``; empty: as it is."""
    keep: float = KEEP
    deadline: float = DEADLINE


def read_attributes(parameters: Mapping[str, str], provisioner: str, size: int) -> VolumeAttributes:
    """The parameters for a volume of this provisioner and size. Raises AttributesError."""
    for name in parameters:
        if name not in LIMITS and name not in _OTHERS:
            known = ", ".join((*LIMITS, *_OTHERS))
            raise AttributesError(f"parameters.{name} is not known; there are {known}")
    limits = {name: value for name, value in parameters.items() if name in LIMITS}
    allocation = parameters.get("allocation", "")
    if allocation not in ("", RESERVED, SPARSE):
        raise AttributesError(
            f"parameters.allocation: {allocation!r} is not known; there are {RESERVED} and {SPARSE}"
        )
    if provisioner == DIRECTORY and (limits or allocation):
        name = next(iter(limits), "allocation")
        why = "a directory shares its disk with everything else: only loop volumes can have limits"
        raise AttributesError(f"parameters.{name}: {why} and an allocation")
    try:
        throttle(limits, "", size)
    except ThrottleError as problem:
        raise AttributesError(str(problem)) from None
    return VolumeAttributes(
        limits,
        parameters.get("tier", ""),
        allocation,
        _seconds(parameters, "keep", KEEP),
        _seconds(parameters, "deadline", DEADLINE),
    )


def _seconds(parameters: Mapping[str, str], name: str, default: float) -> float:
    if name not in parameters:
        return default
    try:
        return check_seconds(parameters[name])
    except ValueError as problem:
        raise AttributesError(f"parameters.{name}: {problem}") from None


def check_seconds(text: str) -> float:
    """A duration that is not negative. Raises ValueError."""
    seconds = parse_duration(text)
    if seconds < 0:
        raise ValueError(f"{text!r} must not be negative")
    return seconds
