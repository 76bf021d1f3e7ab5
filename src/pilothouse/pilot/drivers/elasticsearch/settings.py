"""``elasticsearch.yml``: the Pilot's settings in the terms of the installed version, and the environment's.

    text = written(settings_of(desired, instance, Build("7.17.29"), data=..., logs=..., maps_memory=True))

Controllers use the names of Elasticsearch 7 and later. What follows from the environment (names, addresses,
paths, roles) can't be overridden. Only the leading pilot's node gets ``cluster.initial_master_nodes``: a
cluster is formed once.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from pilothouse.api.applications.elasticsearch_application import INITIAL_MASTERS, MINIMUM_MASTERS, SECURITY
from pilothouse.api.objects import Tree
from pilothouse.meta.versions import Version
from pilothouse.pilot.driver import DesiredState, InstanceEnvironment

_ROLES: Final = ("master", "data", "ingest")
_OLD_NAMES: Final = {
    "discovery.seed_hosts": "discovery.zen.ping.unicast.hosts",
    "transport.port": "transport.tcp.port",
}
"""The names in version 6."""
_NAMES_KEPT: Final = 5
"""Seconds for which a resolved address is cached."""


class Build(msgspec.Struct, frozen=True):
    version: str
    secured: bool = False
    """It has x-pack security, which is on unless it is switched off."""

    @property
    def numbers(self) -> tuple[int, int]:
        parsed = Version.parse(self.version)
        return parsed.numbers[0], parsed.numbers[1]


def settings_of(
    desired: DesiredState,
    instance: InstanceEnvironment,
    build: Build,
    *,
    data: Path,
    logs: Path,
    maps_memory: bool,
) -> Tree:
    """By their dotted names."""
    found: Tree = dict(desired.settings)
    if not desired.leads or build.numbers < (7, 0):
        found.pop(INITIAL_MASTERS, None)
    if build.numbers >= (7, 0):
        found.pop(MINIMUM_MASTERS, None)
    if build.secured:
        found.setdefault(SECURITY, False)
    if not maps_memory:
        found.setdefault("node.store.allow_mmap", False)
    found |= {
        "node.name": instance.name,
        "network.host": instance.address,
        "http.port": 9200,
        "transport.port": 9300,
        "path.data": str(data),
        "path.logs": str(logs),
        **_roles(desired, build),
    }
    if build.numbers < (7, 0):
        found = {_OLD_NAMES.get(name, name): value for name, value in found.items()}
    return found


def written(settings: Mapping[str, Any]) -> str:
    """As YAML, of which JSON is a part."""
    return "".join(
        f"{name}: {msgspec.json.encode(value).decode()}\n" for name, value in sorted(settings.items())
    )


def jvm_options(given: str) -> str:
    """The image's options, without those that write into its folders.

    A recreated pod has another address. Nodes without a master look for it by name, which Java would cache
    for a minute."""
    kept = [
        line
        for line in given.splitlines()
        if "logs/" not in line and "HeapDumpPath=" not in line and not line.startswith(("-Xms", "-Xmx"))
    ]
    return "\n".join([*kept, f"-Des.networkaddress.cache.ttl={_NAMES_KEPT}"]) + "\n"


def _roles(desired: DesiredState, build: Build) -> Tree:
    roles = (desired.spec.get("elasticsearch") or {}).get("roles")
    if roles is None:
        return {}
    if build.numbers >= (7, 9):
        return {"node.roles": [role for role in _ROLES if role in roles]}
    return {f"node.{role}": role in roles for role in _ROLES}
