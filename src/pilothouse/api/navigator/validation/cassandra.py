"""Rules of a CassandraCluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pilothouse.api.navigator.cassandra import SUPPORTED
from pilothouse.api.navigator.validation.clusters import (
    Problems,
    UpdateRules,
    check_image,
    check_metadata,
    check_pool,
    check_pool_changes,
    check_set_name,
    check_settings,
)
from pilothouse.meta.fields import FieldError
from pilothouse.meta.versions import Version

_PREFIX: Final = "cass"
_OWN_SETTINGS: Final = {
    "cluster_name": "metadata.name",
    "listen_address": "the pod's address",
    "broadcast_address": "the pod's address",
    "rpc_address": "the pod's address",
    "broadcast_rpc_address": "the pod's address",
    "seed_provider": "the pods of the cluster",
    "endpoint_snitch": "the pools' racks and datacenters",
    "data_file_directories": "the pool's persistence",
}
"""Settings that the pilot writes, and what they are derived from."""


def check_cassandra(new: Mapping[str, Any], old: Mapping[str, Any] | None, rules: UpdateRules) -> Problems:
    spec = new["spec"]
    yield from check_metadata(new)
    yield from _check_version(spec["version"])
    yield from check_image(spec.get("pilotImage"), "spec.pilotImage")
    yield from check_image(spec.get("image"), "spec.image")
    yield from check_settings(spec.get("config"), "spec.config", _follows_from)
    for index, pool in enumerate(spec.get("nodePools", ())):
        path = f"spec.nodePools[{index}]"
        yield from check_set_name(_PREFIX, new, index)
        yield from check_pool(pool, path)
        yield from check_settings(pool.get("config"), f"{path}.config", _follows_from)
    if old is not None:
        yield from check_pool_changes(new, old, rules)
        yield from _check_version_change(spec["version"], old["spec"]["version"])


def _check_version(text: str) -> Problems:
    if not text:
        yield FieldError.required("spec.version", "the version of Cassandra to run, such as 5.0.2")
        return
    try:
        version = Version.parse(text)
    except ValueError as error:
        yield FieldError.invalid("spec.version", text, str(error))
        return
    if version.pre_release:
        yield FieldError.forbidden("spec.version", f"{text} is a pre-release; only releases are run")
    elif version.major not in SUPPORTED:
        majors = ", ".join(str(major) for major in SUPPORTED)
        yield FieldError.forbidden(
            "spec.version", f"{text} is not supported; supported are versions {majors}"
        )


def _check_version_change(text: str, stored: str) -> Problems:
    try:
        same = Version.parse(text) == Version.parse(stored)
    except ValueError:
        return
    if not same:
        yield FieldError.forbidden(
            "spec.version", f"can't be changed from {stored} to {text} in a running cluster"
        )


def _follows_from(setting: str) -> str:
    return _OWN_SETTINGS.get(setting.partition(".")[0], "")
