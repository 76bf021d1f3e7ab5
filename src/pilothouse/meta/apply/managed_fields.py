"""Field ownership: keeps ``metadata.managedFields`` up to date.

    track_update(live, new, schema=kind.schema, api_version="nav.example.io/v1", manager="kubectl", now=now)

After a plain write (create, update, patch) the writer alone owns what it changed or added, and no manager
owns what it removed. An entry is identified by manager, operation, subresource and, for plain writes, API
version. Only a writer that gains a field gets a new time. An object whose tracking was cleared stays
untracked until it is applied.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final

from pilothouse.meta.apply.comparison import Comparison, changes_only, compare, fields_of
from pilothouse.meta.apply.field_sets import Tree, difference, parse_fields, union, without
from pilothouse.meta.apply.topology import TopologyNode, topology
from pilothouse.meta.schema.model import Schema

Object = dict[str, Any]
Entry = dict[str, Any]
Identity = tuple[str, str, str, str]
Convert = Callable[[Object, str], Object]
"""``convert(object, api_version)`` returns a new object in another version."""

UPDATE: Final = "Update"
APPLY: Final = "Apply"
MOST_UPDATERS: Final = 10
_ANCIENT: Final = "ancient-changes"


class FieldsChange:
    """One object before and after a write, comparable in every version that has managed fields.

    ``served``: the schema of each served version by apiVersion; None means all are. ``convert``: None if
    versions differ in name only. ``reset``: top-level fields that the writer can't set.
    """

    def __init__(
        self,
        old: Object | None,
        new: Object,
        *,
        schema: Schema,
        api_version: str,
        reset: Collection[str] = (),
        served: Mapping[str, Schema] | None = None,
        convert: Convert | None = None,
    ) -> None:
        self._old = old
        self._new = new
        self._reset = reset
        self._served = served
        self._convert = convert
        self.comparison = compare(old or {}, new, topology(schema), ignored=reset)
        self._seen = {api_version: self.comparison}
        self._lost: dict[str, Tree] = {}

    def is_served(self, api_version: str) -> bool:
        return self._served is None or api_version in self._served

    def seen_in(self, api_version: str) -> Comparison:
        """The comparison in the terms of another version."""
        seen = self._seen.get(api_version)
        if seen is None:
            if self._convert is None or self._served is None:
                seen = self.comparison
            else:
                old = {} if self._old is None else self._convert(self._old, api_version)
                new = self._convert(self._new, api_version)
                seen = compare(old, new, topology(self._served[api_version]), ignored=self._reset)
            self._seen[api_version] = seen
        return seen

    def left_of(self, entry: Entry) -> Tree:
        """What an entry's manager still owns after another manager's change."""
        version = entry["apiVersion"]
        lost = self._lost.get(version)
        if lost is None:
            removed, modified, added = self.seen_in(version)
            lost = self._lost[version] = union(union(modified, added), removed)
        return without(entry["fieldsV1"], lost)


def track_update(
    live: Object | None,
    new: Object,
    *,
    schema: Schema,
    api_version: str,
    manager: str,
    subresource: str = "",
    now: str,
    reset: Collection[str] = (),
    served: Mapping[str, Schema] | None = None,
    convert: Convert | None = None,
) -> None:
    """Set ``new``'s managedFields for a plain write; ``live`` is None on create."""
    # A patched object may share its metadata with the live one.
    metadata = new["metadata"] = dict(new.get("metadata") or {})
    entries = _entries_in_force(
        live, metadata.pop("managedFields", None), through_subresource=bool(subresource)
    )
    if not entries and live is not None:
        return
    actor = (UPDATE, manager or "unknown", api_version, subresource)
    if not entries:
        fields = fields_of(new, topology(schema), containers=True, ignored=reset)
        entries = [new_entry(actor, api_version, fields, now)] if fields else []
    else:
        if stored := stored_entries(live):
            # So that metadata in which nothing else has changed equals what it was.
            metadata["managedFields"] = stored
        if live is None or not stays_within(entries, actor, live, new, topology(schema), api_version):
            change = FieldsChange(
                live, new, schema=schema, api_version=api_version, reset=reset, served=served, convert=convert
            )
            if not change.comparison.is_empty():
                entries = _after_update(entries, change, actor, now)
        metadata.pop("managedFields", None)
    if entries:
        metadata["managedFields"] = entries


def stays_within(
    entries: Iterable[Entry], actor: Identity, live: Object, new: Object, node: TopologyNode, api_version: str
) -> bool:
    """True if a write changed only values that its writer owns alone, so that ownership stays as it is.

    Most writes are like that, and this is much cheaper than building field sets. False may be wrong.
    """
    mine: Tree = {}
    others: list[Tree] = []
    for entry in entries:
        if entry["apiVersion"] != api_version:
            return False
        if identity(entry) == actor:
            mine = entry["fieldsV1"]
        else:
            others.append(entry["fieldsV1"])
    return changes_only(live, new, node, mine, others)


def reset_fields(schema: Schema, subresource: str, *, has_status: bool) -> frozenset[str]:
    """The top-level fields that a write to this subresource can't set or own."""
    if subresource == "status":
        return frozenset(schema.properties) - {"apiVersion", "kind", "status"}
    return frozenset({"status"}) if has_status and not subresource else frozenset()


def identity(entry: Entry) -> Identity:
    """What identifies an entry: an applier is the same in every version."""
    operation = entry["operation"]
    version = entry["apiVersion"] if operation == UPDATE else ""
    return (operation, entry["manager"], version, entry.get("subresource", ""))


def new_entry(actor: Identity, api_version: str, fields: Tree, now: str) -> Entry:
    operation, manager, _, subresource = actor
    entry: Entry = {
        "apiVersion": api_version,
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
        "manager": manager,
        "operation": operation,
        "time": now,
    }
    if subresource:
        entry["subresource"] = subresource
    return entry


def sort_key(entry: Entry) -> tuple[str, str, str, str, str]:
    """Entries sorted by operation, then oldest first."""
    return (
        entry["operation"],
        entry.get("time") or "",
        entry["manager"],
        entry["apiVersion"],
        entry.get("subresource", ""),
    )


def parse_entries(entries: Any) -> list[Entry]:
    """managedFields from a client, checked. Raises ValueError."""
    if type(entries) is not list:
        raise ValueError("managedFields must be a list")
    return [_parse_entry(entry) for entry in entries]


def stored_entries(live: Object | None) -> list[Entry]:
    """The entries of a stored object, which were checked when they were written."""
    entries: list[Entry] | None = (live or {}).get("metadata", {}).get("managedFields")
    return entries or []


def _parse_entry(entry: Any) -> Entry:
    if type(entry) is not dict or entry.get("operation") not in (UPDATE, APPLY):
        raise ValueError("a managedFields entry needs the operation Update or Apply")
    if not entry.get("apiVersion") or entry.get("fieldsType") != "FieldsV1":
        raise ValueError("a managedFields entry needs an apiVersion and the fieldsType FieldsV1")
    for field in ("apiVersion", "manager", "time", "subresource"):
        if type(entry.get(field) or "") is not str:
            raise ValueError(f"{field} of a managedFields entry must be a text")
    return {
        **{field: value for field, value in entry.items() if value is not None},
        "manager": entry.get("manager") or "",
        "fieldsV1": parse_fields(entry.get("fieldsV1") or {}),
    }


def _entries_in_force(live: Object | None, sent: Any, *, through_subresource: bool) -> list[Entry]:
    """The entries that a write starts from: the ones it sent, if valid, else the stored ones."""
    stored = stored_entries(live)
    if sent is None or through_subresource or sent == stored:
        return stored
    if sent in ([], [{}]):
        return []
    try:
        return parse_entries(sent)
    except ValueError:
        # A client that doesn't understand managedFields must not be able to lose them.
        return stored


def _after_update(entries: list[Entry], change: FieldsChange, actor: Identity, now: str) -> list[Entry]:
    removed, modified, added = change.comparison
    gained = union(modified, added)
    kept: dict[Identity, Entry] = {}
    touched = False
    for entry in entries:
        key = identity(entry)
        if not change.is_served(entry["apiVersion"]):
            touched = True
            continue
        owned = entry["fieldsV1"]
        rest = without(owned, removed) if key == actor else change.left_of(entry)
        if rest is not owned:
            touched = True
            entry = {**entry, "fieldsV1": rest}
        if rest:
            kept[key] = entry
    mine = kept[actor]["fieldsV1"] if actor in kept else {}
    if difference(gained, mine):
        touched = True
        kept[actor] = new_entry(actor, actor[2], union(without(mine, gained), gained), now)
    return sorted(_capped(kept), key=sort_key) if touched else entries


def _capped(kept: dict[Identity, Entry]) -> list[Entry]:
    """At most ten plain writers: the oldest are merged into one entry per version."""
    updaters = sorted((key for key in kept if key[0] == UPDATE), key=lambda key: sort_key(kept[key]))
    surplus = len(updaters) - MOST_UPDATERS
    first: dict[str, Identity] = {}
    for key in updaters:
        if surplus <= 0:
            break
        version = key[2]
        bucket = (UPDATE, _ANCIENT, version, "")
        if version not in first:
            first[version] = key
            continue
        if bucket not in kept:
            kept[bucket] = kept.pop(first[version])
        entry = kept.pop(key)
        fields = union(kept[bucket]["fieldsV1"], entry["fieldsV1"])
        kept[bucket] = new_entry(bucket, version, fields, entry.get("time") or "")
        surplus -= 1
    return list(kept.values())
