"""Validation of both cluster kinds: images, volumes, resources, pool names, and updates."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from pilothouse.api.navigator.deprecated_fields import volume_of
from pilothouse.api.navigator.validation.placement import check_placement
from pilothouse.base.quantity import Quantity, parse_quantity
from pilothouse.meta import names
from pilothouse.meta.fields import FieldError, child, entry

LONGEST_SET_NAME: Final = 52
"""A StatefulSet's name, a dash and a ten-digit hash must fit into a label's 63 characters."""
PROTECTION: Final = "navigator.jetstack.io/protect-from-deletion"
"""While this annotation is "true", the cluster can't be deleted."""

Problems = Iterator[FieldError]


@dataclass(frozen=True, kw_only=True)
class UpdateRules:
    """What may change in an existing pool."""

    frozen: frozenset[str] | None
    """Immutable fields; None means all but replicas and persistence, which have their own rules."""
    volumes_grow: bool
    """Whether persistence.size may grow."""
    size_advice: str = ""
    """What to do instead, if it may not."""


def check_metadata(obj: Mapping[str, Any]) -> Problems:
    annotations = obj["metadata"].get("annotations") or {}
    value = annotations.get(PROTECTION)
    if value not in (None, "true", "false"):
        yield FieldError.not_supported(entry("metadata.annotations", PROTECTION), value, ["true", "false"])


def protected(obj: Mapping[str, Any]) -> str:
    """Why a cluster may not be deleted, or empty."""
    if (obj["metadata"].get("annotations") or {}).get(PROTECTION) != "true":
        return ""
    return (
        f'it is protected against deletion: remove the annotation {PROTECTION}, or set it to "false", first'
    )


def check_image(image: Mapping[str, Any] | None, path: str) -> Problems:
    if image is None:
        return
    for name in ("repository", "tag"):
        if not image.get(name):
            yield FieldError.required(child(path, name), f"an image needs a {name}")


def check_pilot_image(spec: Mapping[str, Any], old: Mapping[str, Any] | None) -> Problems:
    """A pilot image is required, except in a cluster created in a version that doesn't."""
    if "pilotImage" in spec:
        return
    if old is None or "pilotImage" in old["spec"]:
        yield FieldError.required("spec.pilotImage", "the image that the pilot is taken from")


def check_set_name(prefix: str, obj: Mapping[str, Any], index: int) -> Problems:
    """A pool's name is a DNS label, short enough for its pods' names."""
    name = obj["spec"]["nodePools"][index]["name"]
    path = f"spec.nodePools[{index}].name"
    if not name:
        yield FieldError.required(path, "a pool needs a name")
        return
    if problem := names.label(name):
        yield FieldError.invalid(path, name, problem)
        return
    whole = f"{prefix}-{obj['metadata'].get('name', '')}-{name}"
    if len(whole) > LONGEST_SET_NAME:
        yield FieldError.invalid(
            path,
            name,
            f"the pool's StatefulSet would be named {whole}, which is {len(whole)} characters long and may "
            f"have {LONGEST_SET_NAME}: shorten the name of the pool or of the cluster",
        )


def check_pool(pool: Mapping[str, Any], path: str) -> Problems:
    """Checks of every pool, whatever the database."""
    if (persistence := pool.get("persistence")) is not None:
        yield from check_persistence(persistence, child(path, "persistence"))
    yield from check_resources(pool.get("resources"), child(path, "resources"))
    yield from check_heap(pool, path)
    yield from names.validate_labels(pool.get("nodeSelector") or {}, child(path, "nodeSelector"))
    yield from check_placement(pool, path)


def check_persistence(persistence: Mapping[str, Any], path: str) -> Problems:
    where = child(path, "size")
    said = persistence.get("size")
    if said is None and persistence.get("enabled") is False:
        return
    if said is None or said == "":
        yield FieldError.required(where, "how much space each node gets")
        return
    size = quantity(said)
    if size is None:
        yield FieldError.invalid(where, said, "must be a quantity, such as 10Gi")
    elif not size:
        yield FieldError.required(where, "must be greater than 0")
    elif size < Quantity(0):
        yield FieldError.invalid(where, said, "must not be negative")


def check_resources(resources: Mapping[str, Any] | None, path: str) -> Problems:
    """Amounts are valid and not negative, and no request exceeds its limit."""
    if not resources:
        return
    amounts: dict[str, dict[str, Quantity]] = {"limits": {}, "requests": {}}
    for part, found in amounts.items():
        for name, said in (resources.get(part) or {}).items():
            where = child(child(path, part), name)
            amount = quantity(said)
            if amount is None:
                yield FieldError.invalid(where, said, "must be a quantity, such as 500m or 2Gi")
            elif amount < Quantity(0):
                yield FieldError.invalid(where, said, "must be greater than or equal to 0")
            else:
                found[name] = amount
    for name, request in amounts["requests"].items():
        limit = amounts["limits"].get(name)
        if limit is not None and request > limit:
            where = child(child(path, "requests"), name)
            said = resources["requests"][name]
            yield FieldError.invalid(
                where, said, f"must be less than or equal to the {name} limit of {limit}"
            )


def check_heap(pool: Mapping[str, Any], path: str) -> Problems:
    said = pool.get("heapSize")
    if said is None:
        return
    where = child(path, "heapSize")
    heap = quantity(said)
    if heap is None or heap <= Quantity(0):
        yield FieldError.invalid(where, said, "must be a quantity above zero, such as 1Gi")
        return
    memory = ((pool.get("resources") or {}).get("limits") or {}).get("memory")
    limit = quantity(memory) if memory is not None else None
    if limit is not None and heap >= limit:
        yield FieldError.invalid(where, said, f"must be below the memory limit of {memory}")


def check_settings(settings: Any, path: str, owner_of: Callable[[str], str]) -> Problems:
    """Settings that Pilothouse writes can't be given; ``owner_of`` says what they are derived from, if so."""
    for name, where in _flat(settings or {}, "", path):
        if follows := owner_of(name):
            yield FieldError.forbidden(where, f"{name} follows from {follows} and can't be set here")


def check_pool_changes(new: Mapping[str, Any], old: Mapping[str, Any], rules: UpdateRules) -> Problems:
    """Pools are matched by name and may be added and removed."""
    stored = {pool["name"]: pool for pool in old["spec"].get("nodePools", ())}
    for index, pool in enumerate(new["spec"].get("nodePools", ())):
        before = stored.get(pool["name"])
        if before is None:
            continue
        path = f"spec.nodePools[{index}]"
        frozen = rules.frozen
        if frozen is None:
            frozen = frozenset(pool.keys() | before.keys()) - {"name", "replicas", "persistence"}
        for name in sorted(frozen):
            if (pool.get(name) or None) != (before.get(name) or None):
                yield FieldError.forbidden(
                    child(path, name),
                    f"the {name} of an existing pool can't be changed; add another pool and remove this one",
                )
        yield from _check_volume_change(pool, before, path, rules)


def _check_volume_change(
    pool: Mapping[str, Any], before: Mapping[str, Any], path: str, rules: UpdateRules
) -> Problems:
    where = child(path, "persistence")
    new, old = volume_of(pool), volume_of(before)
    if old is None:
        if new is not None:
            yield FieldError.forbidden(
                where,
                "volumes can't be added to an existing pool, since its data would be left behind; "
                "add a pool with volumes and remove this one",
            )
        return
    if new is None:
        yield FieldError.forbidden(where, "the volumes of an existing pool can't be removed")
        return
    if new.get("storageClass") != old.get("storageClass"):
        yield FieldError.forbidden(
            child(where, "storageClass"), "the storage class of existing volumes can't be changed"
        )
    size, stored = quantity(new.get("size")), quantity(old.get("size"))
    if size is None or stored is None or size == stored:
        return
    if not rules.volumes_grow:
        detail = f"the size of existing volumes can't be changed{rules.size_advice}"
        yield FieldError.forbidden(child(where, "size"), detail)
    elif size < stored:
        yield FieldError.forbidden(
            child(where, "size"), f"volumes can't shrink: {old['size']} is stored, {new['size']} is less"
        )


def _flat(settings: Any, prefix: str, path: str) -> Iterator[tuple[str, str]]:
    """Each setting under its dotted name, however nested, with its path."""
    for key, value in settings.items():
        name = f"{prefix}{key}"
        where = entry(path, key)
        if isinstance(value, dict) and value:
            yield from _flat(value, f"{name}.", where)
        else:
            yield name, where


@lru_cache(maxsize=1024, typed=True)
def quantity(said: Any) -> Quantity | None:
    """The amount, or None if invalid; cached, since the same few amounts recur."""
    try:
        return parse_quantity(said)
    except ValueError:
        return None
