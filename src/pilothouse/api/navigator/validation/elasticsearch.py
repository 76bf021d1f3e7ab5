"""Rules of an ElasticsearchCluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from pilothouse.api.navigator.elasticsearch import LEAST_HEAP, masters, quorum
from pilothouse.api.navigator.upgrade_paths import is_too_new, refusal, unknown
from pilothouse.api.navigator.validation.clusters import (
    Problems,
    UpdateRules,
    check_image,
    check_metadata,
    check_pool,
    check_pool_changes,
    check_set_name,
    check_settings,
    quantity,
)
from pilothouse.base.quantity import Quantity, parse_quantity
from pilothouse.meta.fields import FieldError
from pilothouse.meta.versions import Version

_PREFIX: Final = "es"
_LONGEST_INDEX: Final = 255
_NOT_IN_INDICES: Final = frozenset('\\/?"<>| ,#:')
"""Characters that names of indices can't have, but for the star of a pattern."""
_OWN_SETTINGS: Final = {
    "cluster.name": "metadata.name",
    "cluster.initial_master_nodes": "the pools with the role master",
    "discovery.": "the pods of the cluster",
    "http.port": "the cluster's services",
    "network.": "the pod's address",
    "node.data": "the pool's roles",
    "node.ingest": "the pool's roles",
    "node.master": "the pool's roles",
    "node.name": "the pod's name",
    "node.roles": "the pool's roles",
    "path.data": "the pool's persistence",
    "transport.port": "the cluster's services",
    "transport.tcp.port": "the cluster's services",
    "xpack.security.enabled": "spec.security",
    "xpack.security.http.ssl.": "spec.security",
    "xpack.security.transport.ssl.": "spec.security",
}
"""Settings that the pilot writes, and what they are derived from; a trailing dot covers all below it."""


def check_elasticsearch(
    new: Mapping[str, Any], old: Mapping[str, Any] | None, rules: UpdateRules, running: str = ""
) -> Problems:
    """``running`` is the lowest version that any node of the stored cluster reports."""
    spec = new["spec"]
    yield from check_metadata(new)
    yield from _check_version(
        spec["version"], old["spec"].get("version") if old is not None else None, running
    )
    yield from check_image(spec.get("pilotImage"), "spec.pilotImage")
    yield from check_image(spec.get("image"), "spec.image")
    yield from check_settings(spec.get("config"), "spec.config", _follows_from)
    for index, plugin in enumerate(spec.get("plugins", ())):
        yield from check_plugin(plugin, f"spec.plugins[{index}]")
    stored = {pool["name"]: pool for pool in (old["spec"].get("nodePools") or ())} if old is not None else {}
    for index, pool in enumerate(spec.get("nodePools", ())):
        path = f"spec.nodePools[{index}]"
        yield from check_set_name(_PREFIX, new, index)
        yield from check_pool(pool, path)
        if _memory(pool) != _memory(stored.get(pool["name"], {})):
            # A stored value stays valid.
            yield from _check_heap_suffices(pool, path)
        yield from check_settings(pool.get("config"), f"{path}.config", _follows_from)
    yield from _check_masters(spec)
    yield from _check_redundancy(spec.get("redundancy"), "spec.redundancy")
    if old is not None:
        yield from check_pool_changes(new, old, rules)
        yield from _check_security_stays(new, old)


def check_pilot_section(section: Mapping[str, Any], path: str) -> Problems:
    """The section of a Pilot's spec."""
    for index, plugin in enumerate(section.get("plugins", ())):
        yield from check_plugin(plugin, f"{path}.plugins[{index}]")


def check_plugin(plugin: Any, path: str) -> Problems:
    """A plugin's source, in versions that have one."""
    url = plugin.get("url") if isinstance(plugin, dict) else None
    if url is None:
        return
    try:
        parts = urlsplit(url)
    except ValueError:
        parts = urlsplit("")
    found = parts.path if parts.scheme == "file" else parts.hostname
    if parts.scheme not in ("http", "https", "file") or not found:
        yield FieldError.invalid(
            f"{path}.url", url, "must be an http, https or file URL, such as https://host/plugin.zip"
        )


def _check_version(version: str, stored: str | None, running: str) -> Problems:
    """A valid version that, if changed, can be reached from the running one."""
    if version in ("", "0.0.0"):
        yield FieldError.required("spec.version", "the version of Elasticsearch to run, such as 8.17.0")
        return
    try:
        Version.parse_strict(version)
    except ValueError as error:
        yield FieldError.invalid("spec.version", version, str(error))
        return
    if version == stored:
        return  # A stored value stays valid.
    problem = unknown(version) if is_too_new(version) else refusal(running, version) if running else ""
    if problem:
        yield FieldError.invalid("spec.version", version, problem)


def _memory(pool: Mapping[str, Any]) -> tuple[Any, Any]:
    """What determines the heap: the heap size and the memory limit."""
    return pool.get("heapSize"), ((pool.get("resources") or {}).get("limits") or {}).get("memory")


def _check_heap_suffices(pool: Mapping[str, Any], path: str) -> Problems:
    """The heap, given or half of the memory limit, is large enough to start."""
    said, memory = _memory(pool)
    asked, limit = quantity(said), quantity(memory)
    least = parse_quantity(LEAST_HEAP)
    if said is not None:
        if asked is not None and Quantity(0) < asked < least:
            detail = (
                f"must be at least {LEAST_HEAP}, such as 1Gi: with less Elasticsearch does not start, "
                "or takes no documents"
            )
            yield FieldError.invalid(f"{path}.heapSize", said, detail)
    elif limit is not None and Quantity(0) <= limit < least + least:
        detail = (
            f"must be at least twice {LEAST_HEAP}, since half of it is the heap, and with less Elasticsearch "
            "does not start, or takes no documents; or set heapSize, in v1beta1"
        )
        yield FieldError.invalid(f"{path}.resources.limits.memory", memory, detail)


def _check_masters(spec: Mapping[str, Any]) -> Problems:
    """The first problem with the masters; others would follow from it."""
    total, said = masters(spec.get("nodePools", ())), spec.get("minimumMasters")
    where = "spec.minimumMasters"
    if total == 0:
        yield FieldError.invalid(
            "spec.nodePools", total, "there must be at least one node with the role master"
        )
    elif said is None:
        return
    elif said <= 0:
        yield FieldError.invalid(where, said, "must be at least 1; leave it out to have a majority")
    elif said < quorum(total):
        yield FieldError.invalid(
            where,
            said,
            f"must be at least {quorum(total)}, a majority of {total}, or the cluster could split in two",
        )
    elif said > total:
        yield FieldError.invalid(where, said, f"must be at most {total}, which is how many masters there are")


def _check_redundancy(redundancy: Mapping[str, Any] | None, path: str) -> Problems:
    """Patterns that a name of an index can match."""
    for index, pattern in enumerate((redundancy or {}).get("indices") or ()):
        where = f"{path}.indices[{index}]"
        if not pattern or len(pattern.encode()) > _LONGEST_INDEX:
            detail = (
                f"must be the name of an index, or a pattern such as logs-*, of 1 to {_LONGEST_INDEX} bytes"
            )
            yield FieldError.invalid(where, pattern, detail)
        elif pattern != pattern.lower() or _NOT_IN_INDICES & set(pattern) or pattern[0] in "-_+":
            detail = (
                "must be a name or a pattern of indices, such as logs-*: in lower case, without spaces and "
                '\\ / ? " < > | , # :, and beginning with none of - _ +'
            )
            yield FieldError.invalid(where, pattern, detail)


def _check_security_stays(new: Mapping[str, Any], old: Mapping[str, Any]) -> Problems:
    formed = (old.get("status") or {}).get("clusterUUID")
    if formed and new["spec"].get("security") != old["spec"].get("security"):
        yield FieldError.forbidden(
            "spec.security",
            "can't be changed once the cluster is formed, since nodes with and without encryption can't "
            "talk to each other; create another cluster and move the data, or change what is in the Secrets",
        )


def _follows_from(setting: str) -> str:
    for name, follows in _OWN_SETTINGS.items():
        if setting == name or (name.endswith(".") and setting.startswith(name)):
            return follows
    return ""
