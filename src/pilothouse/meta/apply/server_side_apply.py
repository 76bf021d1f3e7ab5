"""Server-side apply: merges what a manager wants into the live object.

    new = apply(live, {"apiVersion": …, "kind": …, "metadata": {"name": "db"}, "spec": {"replicas": 3}},
                schema=kind.schema, api_version=kind.api_version, manager="gitops", force=False, now=now)

Fields that the manager applied before and no longer applies are removed, unless another manager owns them.
Changing a field that another manager owns is a conflict unless forced; equal values are owned together.
Arguments stay unchanged.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from pilothouse.meta import errors
from pilothouse.meta.apply.comparison import fields_of
from pilothouse.meta.apply.field_sets import Tree, difference, intersection, paths, union
from pilothouse.meta.apply.last_applied import MANAGER as KUBECTL
from pilothouse.meta.apply.last_applied import agreed_fields, refresh
from pilothouse.meta.apply.managed_fields import (
    APPLY,
    UPDATE,
    Convert,
    Entry,
    FieldsChange,
    Identity,
    Object,
    identity,
    new_entry,
    sort_key,
    stays_within,
    stored_entries,
)
from pilothouse.meta.apply.merge import detached, merge, misfits, remove, with_declared
from pilothouse.meta.apply.topology import topology
from pilothouse.meta.errors import StatusCauseDetail, StatusError
from pilothouse.meta.schema.model import Schema

_BEFORE: Final = "before-first-apply"
_MOST_MISFITS: Final = 20


def apply(
    live: Object | None,
    patch: Object,
    *,
    schema: Schema,
    api_version: str,
    manager: str,
    force: bool = False,
    subresource: str = "",
    now: str,
    reset: Collection[str] = (),
    served: Mapping[str, Schema] | None = None,
    convert: Convert | None = None,
) -> Object:
    """The object after the apply, with managedFields; the caller fills in defaults and validates.

    ``live`` is None on create; ``served`` and ``convert`` as in ``managed_fields.FieldsChange``. Raises
    StatusError: 400 for a patch that can't be applied to this kind, 409 for conflicts.
    """
    check_patch(patch, schema=schema, api_version=api_version)
    node = topology(schema)
    patch = {field: value for field, value in patch.items() if field not in reset}
    before = {} if live is None else live
    actor: Identity = (APPLY, manager, "", subresource)
    entries = {identity(entry): entry for entry in stored_entries(live)}
    if live is not None and not entries:
        entries = _unclaimed(live, schema, api_version, subresource, reset, now)
    last = entries.get(actor)
    applied = fields_of(patch, node, ignored=reset)

    merged = merge(before, patch, node)
    again = last is not None and last["fieldsV1"] == applied and last["apiVersion"] == api_version
    if last is not None and not again:
        others = [entry for key, entry in entries.items() if key != actor]
        versions = _Versions(schema, api_version, served, convert)
        merged = _prune(merged, applied, last, others, versions)
    if again and live is not None and stays_within(entries.values(), actor, live, merged, node, api_version):
        owners = sorted(entries.values(), key=sort_key)
    else:
        change = FieldsChange(
            live, merged, schema=schema, api_version=api_version, reset=reset, served=served, convert=convert
        )
        if not force:
            _check_conflicts(entries, actor, change, live, schema)
        owners = _after_apply(entries, actor, applied, change, api_version, now)
    result = detached(merged)
    if manager == KUBECTL:
        refresh(result, patch)
    metadata = result.setdefault("metadata", {})
    if owners:
        metadata["managedFields"] = owners
    else:
        metadata.pop("managedFields", None)
    return result


def check_patch(patch: Object, *, schema: Schema, api_version: str) -> None:
    """Raise for a patch of another version, one with managedFields, or one that doesn't fit the schema."""
    sent = patch.get("apiVersion", "")
    if sent != api_version:
        raise errors.bad_request(
            f"Incorrect version specified in apply patch. Specified patch version: {sent}, expected: "
            f"{api_version}"
        )
    metadata = patch.get("metadata")
    if type(metadata) is dict and metadata.get("managedFields") is not None:
        raise errors.bad_request("metadata.managedFields must be nil")
    problems = list(misfits(patch, topology(schema)))
    if problems:
        raise _misfit(patch, problems)


def _misfit(patch: Object, problems: list[str]) -> StatusError:
    metadata = patch.get("metadata")
    metadata = metadata if type(metadata) is dict else {}
    whose = f"{metadata.get('namespace', '')}/{metadata.get('name', '')}"
    shown = problems[:_MOST_MISFITS]
    if len(problems) > len(shown):
        shown.append(f"and {len(problems) - len(shown)} more")
    listed = shown[0] if len(shown) == 1 else "errors:\n  " + "\n  ".join(shown)
    kind = f"{patch.get('apiVersion', '')}, Kind={patch.get('kind', '')}"
    return errors.bad_request(f"failed to create typed patch object ({whose}; {kind}): {listed}")


def _unclaimed(
    live: Object, schema: Schema, api_version: str, subresource: str, reset: Collection[str], now: str
) -> dict[Identity, Entry]:
    """Entries for an untracked object: all of its fields belong to ``before-first-apply``."""
    fields = fields_of(live, topology(schema), containers=True, ignored=reset)
    actor = (UPDATE, _BEFORE, api_version, subresource)
    return {actor: new_entry(actor, api_version, fields, now)} if fields else {}


class _Versions:
    """Converts objects and field sets of one kind to the version of a set."""

    def __init__(
        self, schema: Schema, api_version: str, served: Mapping[str, Schema] | None, convert: Convert | None
    ) -> None:
        self.own = api_version
        self._schemas = {api_version: schema} | dict(served or {})
        self._served = served
        self._schema = schema
        # Without their schemas, objects in other versions could not be made sense of.
        self._convert = convert if served is not None else None

    def has(self, api_version: str) -> bool:
        return self._served is None or api_version in self._schemas

    def node(self, api_version: str) -> Any:
        return topology(self._schemas.get(api_version, self._schema))

    def convert(self, obj: Object, api_version: str) -> Object:
        if self._convert is None or obj.get("apiVersion") == api_version:
            return obj
        return self._convert(obj, api_version)


def _prune(merged: Object, applied: Tree, last: Entry, others: list[Entry], versions: _Versions) -> Object:
    """Remove what the manager applied last time, doesn't apply now, and no other manager owns.

    Whole declared fields are removed, so that no empty containers remain. What that removes of other
    managers, or of no manager (a default), is put back unless it is inside something removed.
    """
    version = last["apiVersion"]
    if not versions.has(version):
        return merged
    if version == versions.own and not difference(last["fieldsV1"], applied):
        return merged
    node = versions.node(version)
    whole = versions.convert(merged, version)
    gone = with_declared(last["fieldsV1"], node)
    pruned = remove(whole, gone, node)

    owned: dict[str, Tree] = {versions.own: applied}
    for entry in others:
        if versions.has(entry["apiVersion"]):
            owned[entry["apiVersion"]] = union(owned.get(entry["apiVersion"], {}), entry["fieldsV1"])
    # The version that was pruned comes first: conversion may need what is put back there.
    for each in sorted(owned, key=lambda each: each != version):
        pruned = _put_back(
            versions.convert(whole, each), versions.convert(pruned, each), owned[each], versions.node(each)
        )
    before = fields_of(whole, node, containers=True)
    after = fields_of(versions.convert(pruned, version), node, containers=True)
    return versions.convert(remove(whole, intersection(difference(before, after), gone), node), versions.own)


def _put_back(whole: Object, pruned: Object, owned: Tree, node: Any) -> Object:
    everything = fields_of(whole, node, containers=True)
    kept = union(fields_of(pruned, node, containers=True), with_declared(owned, node))
    return remove(whole, difference(everything, kept), node)


def _check_conflicts(
    entries: Mapping[Identity, Entry],
    actor: Identity,
    change: FieldsChange,
    live: Object | None,
    schema: Schema,
) -> None:
    conflicts: list[tuple[Entry, Tree]] = []
    for key, entry in entries.items():
        if key == actor or not change.is_served(entry["apiVersion"]):
            continue
        seen = change.seen_in(entry["apiVersion"])
        contested = intersection(entry["fieldsV1"], union(seen.modified, seen.added))
        if contested:
            conflicts.append((entry, contested))
    if not conflicts:
        return
    if actor[1] == KUBECTL and live is not None:
        # kubectl's own client-side apply set these: moving to server-side apply takes them over.
        agreed = agreed_fields(live, schema)
        conflicts = [
            (entry, rest) for entry, contested in conflicts if (rest := difference(contested, agreed))
        ]
    causes = [
        StatusCauseDetail("FieldManagerConflict", f"conflict with {_whom(entry)}", path)
        for entry, contested in sorted(conflicts, key=lambda conflict: sort_key(conflict[0]))
        for path in paths(contested)
    ]
    if causes:
        raise errors.apply_conflict(causes)


def _whom(entry: Entry) -> str:
    whom = f'"{entry["manager"]}"'
    if entry.get("subresource"):
        whom += f' with subresource "{entry["subresource"]}"'
    if entry["operation"] == UPDATE:
        whom += f" using {entry['apiVersion']}"
    return whom


def _after_apply(
    entries: Mapping[Identity, Entry],
    actor: Identity,
    applied: Tree,
    change: FieldsChange,
    api_version: str,
    now: str,
) -> list[Entry]:
    owners: list[Entry] = []
    for key, entry in entries.items():
        if key == actor or not change.is_served(entry["apiVersion"]):
            continue
        rest = change.left_of(entry)
        if rest:
            owners.append(entry if rest is entry["fieldsV1"] else {**entry, "fieldsV1": rest})
    last = entries.get(actor)
    if last is not None and last["fieldsV1"] == applied and last["apiVersion"] == api_version:
        owners.append(last)
    elif applied:
        owners.append(new_entry(actor, api_version, applied, now))
    return sorted(owners, key=sort_key)
