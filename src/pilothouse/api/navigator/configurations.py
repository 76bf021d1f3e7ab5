"""What a database runs with, as one hash: by it a Pilot's status says which of its specs is in force.

    configuration_hash(pilot["spec"])        # "3f8a0c51b2d94e77"
    in_force(pilot.spec, pilot.annotations)  # the same, unless somebody else than its cluster has edited the spec

Controllers and pilots ask the same function, so that they can't disagree. What is not in the hash is no reason to restart a database:
its version (that is the image's business), the name of its pool, and settings that count once or are set while it runs.

A cluster writes the hash of what it gives to a Pilot beside it, in one stroke. A spec with another hash was edited by hand: a database that runs is not restarted for it, and its
cluster puts it right. A Pilot without the annotation has no cluster that would, and means what it says.
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
    """Of a Pilot's spec. What is absent counts as what is empty."""
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
    """The hash of what a Pilot's database should run with: what its cluster vouches for, else what its spec says."""
    return annotations.get(CONFIGURATION) or configuration_hash(spec)
