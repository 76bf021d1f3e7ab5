"""What a database runs with, as one hash: by it a Pilot's status says which of its specs is in force.

    configuration_hash(pilot["spec"])        # "3f8a0c51b2d94e77"

Controllers and pilots ask the same function, so that they can't disagree. What is not in the hash is no reason to restart a database:
its version (that is the image's business), the name of its pool, and settings that count once or are set while it runs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Final

import msgspec

INITIAL_MASTERS: Final = "cluster.initial_master_nodes"
MINIMUM_MASTERS: Final = "discovery.zen.minimum_master_nodes"
SECURITY: Final = "xpack.security.enabled"
LIVE: Final = frozenset({INITIAL_MASTERS, MINIMUM_MASTERS})
"""Settings that a running database need not be restarted for."""
_LENGTH: Final = 16


def configuration_hash(spec: Mapping[str, Any]) -> str:
    """Of a Pilot's spec. What is absent counts as what is empty."""
    configuration = spec.get("configuration") or {}
    settings = configuration.get("settings") or {}
    elasticsearch = spec.get("elasticsearch") or {}
    cassandra = spec.get("cassandra") or {}
    said = {
        "settings": {name: value for name, value in settings.items() if name not in LIVE},
        "files": configuration.get("files") or {},
        "environment": configuration.get("environment") or {},
        "plugins": sorted(elasticsearch.get("plugins") or (), key=lambda plugin: str(plugin.get("name"))),
        "roles": sorted(elasticsearch.get("roles") or ()),
        "place": [cassandra.get(field) or "" for field in ("rack", "datacenter")],
    }
    return hashlib.sha256(msgspec.json.encode(said, order="sorted")).hexdigest()[:_LENGTH]
