"""The hash of a database's configuration, by which a Pilot's status says which spec is in force.

    configuration_hash(pilot["spec"])        # "3f8a0c51b2d94e77"
    in_force(pilot.spec, pilot.annotations)  # the same, unless the spec was edited by hand

Not in the hash, so that no change restarts a database: its version (the image's concern), the name of its
pool, and settings that apply once or at run time. A cluster writes the hash of a Pilot's spec as an
annotation in the same request. A spec with another hash was edited by hand: the database is not restarted,
and the cluster restores the spec. A Pilot without the annotation has no cluster, and its spec counts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from pilothouse.api.applications.registry import applications
from pilothouse.api.navigator.labels import CONFIGURATION

_LENGTH: Final = 16


def configuration_hash(spec: Mapping[str, Any]) -> str:
    """The hash of a Pilot's spec. Absent and empty are the same."""
    configuration = spec.get("configuration") or {}
    settings = configuration.get("settings") or {}
    named = spec.get("application")
    live = frozenset[str]().union(
        *(each.live_settings for each in applications() if named in (None, each.name))
    )
    said = {
        "settings": {name: value for name, value in settings.items() if name not in live},
        "files": configuration.get("files") or {},
        "environment": configuration.get("environment") or {},
    }
    for each in applications():
        said |= each.restarts_for(spec.get(each.name) or {})
    return hashlib.sha256(msgspec.json.encode(said, order="sorted")).hexdigest()[:_LENGTH]


def in_force(spec: Mapping[str, Any], annotations: Mapping[str, str]) -> str:
    """The hash that a Pilot's database should run with: its cluster's annotation, else that of its spec."""
    return annotations.get(CONFIGURATION) or configuration_hash(spec)
