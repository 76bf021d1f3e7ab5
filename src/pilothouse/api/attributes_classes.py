"""VolumeAttributesClasses of volumes, and those that rules compute.

    computed_class("ebs.csi.aws.com", {"type": "gp3", "iops": "6000"})       # autopilot-<hash>

Claims with the same driver and parameters share a computed class. It has the label ``COMPUTED``, and is
deleted when no claim uses it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Final

from pilothouse.api.kind_names import VolumeAttributesClass
from pilothouse.api.local_volumes import PROVISIONED_BY
from pilothouse.api.objects import Object, Tree

COMPUTED: Final = "autopilot.libopenstorage.org/computed"
"""The label of a class that was computed here; its value is ``true``."""
IOPS_LIMITS: Final = ("iops", "readIops", "writeIops")
"""The parameters that limit operations a second: of both sides, and of one, which overrides."""
_PREFIX: Final = "autopilot-"
_DIGITS: Final = 12


def driver_of(volume: Object) -> str:
    """The driver that a volume's classes have to be for; empty if it has none."""
    return str(volume.at("spec", "csi", "driver") or volume.annotations.get(PROVISIONED_BY) or "")


def parameters_of(attributes: Object | None) -> dict[str, str]:
    """The parameters of a class; none if there is no class."""
    return dict(attributes.get("parameters") or {}) if attributes is not None else {}


def computed_name(driver: str, parameters: Mapping[str, str]) -> str:
    """The same for the same driver and parameters."""
    content = json.dumps([driver, dict(parameters)], sort_keys=True)
    return _PREFIX + hashlib.sha256(content.encode()).hexdigest()[:_DIGITS]


def computed_class(driver: str, parameters: Mapping[str, str]) -> Tree:
    return {
        "apiVersion": VolumeAttributesClass.api_version,
        "kind": VolumeAttributesClass.kind,
        "metadata": {"name": computed_name(driver, parameters), "labels": {COMPUTED: "true"}},
        "driverName": driver,
        "parameters": dict(parameters),
    }


def current_class(claim: Object) -> str:
    """The class that a claim's volume has; empty if it has none."""
    return str(claim.status.get("currentVolumeAttributesClassName") or "")


def requested_class(claim: Object) -> str:
    """The class that a claim asks for; empty if it asks for none."""
    return str(claim.spec.get("volumeAttributesClassName") or "")
