"""How many copies indices have: a pure decision of the leading pilot.

    decision = copies_decision(asked, indices, nodes, health, settled=True)
    decision.acts                            # (SetCopies(("books",), 2),)
    decision.facts                           # for status.elasticsearch.cluster.redundancy

* Copies are added up to one less than the data nodes that are in, since no node holds two copies of a shard.
* Copies are removed only while the cluster is Green. Those that the data nodes that stay can't hold are also
  removed while it is Yellow, once nothing moves: no node has them.
* Indices that choose their copies themselves (``auto_expand_replicas``) are left alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Final

import msgspec

from pilothouse.api.objects import Object, Tree
from pilothouse.pilot.drivers.elasticsearch.cluster_actions import is_leaving, roles_of
from pilothouse.pilot.drivers.elasticsearch.cluster_state import ClusterState

COPIES: Final = "index.number_of_replicas"
_AUTOMATIC: Final = "index.auto_expand_replicas"
INDEX_SETTINGS: Final = f"/_all/_settings/{COPIES},{_AUTOMATIC}"
_LONGEST_LIST: Final = 2000
"""Characters of a list of names in a path: a request line may have 4096, and each may be quoted."""


class SetCopies(msgspec.Struct, frozen=True):
    """Change the number of copies of some indices."""

    indices: tuple[str, ...]
    copies: int


class DataNodes(msgspec.Struct, frozen=True):
    """How many data nodes there are."""

    present: int
    """In the cluster, and not decommissioned."""
    staying: int
    """Not decommissioned, present or not."""


class CopiesDecision(msgspec.Struct, frozen=True):
    acts: tuple[SetCopies, ...]
    facts: Tree


def data_nodes(pilots: Iterable[Object], state: ClusterState) -> DataNodes:
    staying = [each.name for each in pilots if "data" in roles_of(each) and not is_leaving(each)]
    names = set(state.names.values())
    return DataNodes(present=sum(name in names for name in staying), staying=len(staying))


def copies_by_index(answer: Mapping[str, Any]) -> dict[str, int]:
    """The copies of the indices whose settings were asked for, without those that choose them themselves."""
    found = {name: (each or {}).get("settings") or {} for name, each in answer.items()}
    return {
        name: int(settings.get(COPIES) or 0)
        for name, settings in found.items()
        if str(settings.get(_AUTOMATIC) or "false") == "false"
    }


def copies_decision(
    asked: Mapping[str, Any], indices: Mapping[str, int], nodes: DataNodes, health: str, *, settled: bool
) -> CopiesDecision:
    """``health`` is Green, Yellow or Red. ``settled``: all nodes are in, and nothing moves."""
    copies, patterns = int(asked["copies"]), tuple(asked.get("indices") or ())
    matching = {name: found for name, found in indices.items() if _matches(name, patterns)}
    most = max(0, nodes.staying - 1)
    changes: dict[int, list[str]] = {}
    held_back = 0
    for name, found in sorted(matching.items()):
        more, fewer = min(copies, max(0, nodes.present - 1)), min(copies, most)
        if found < more:
            changes.setdefault(more, []).append(name)
        elif found > fewer:
            unplaced = found > most and settled and health == "Yellow"
            if health == "Green" or unplaced:
                changes.setdefault(fewer if health == "Green" else max(fewer, most), []).append(name)
            else:
                held_back += 1
    acts = tuple(SetCopies(names, to) for to, each in changes.items() for names in _batches(each))
    exact = all(found == copies for found in matching.values())
    kept = exact and not acts and health == "Green"
    facts: Tree = {
        "copies": copies,
        "indices": list(patterns),
        "matching": len(matching),
        "kept": kept,
        "message": _message(copies, matching, nodes, health, acts=bool(acts), held_back=held_back, kept=kept),
    }
    return CopiesDecision(acts, facts)


def _message(
    copies: int,
    matching: Mapping[str, int],
    nodes: DataNodes,
    health: str,
    *,
    acts: bool,
    held_back: int,
    kept: bool,
) -> str:
    number = _counted(copies, "copy", "copies")
    if not matching:
        return "No index matches."
    if kept:
        return f"{_counted(len(matching), 'index has', 'indices have')} {number} each."
    if acts:
        return f"The number of copies is being set to {copies}, as far as there are data nodes for them."
    if held_back:
        which = _counted(held_back, "index has", "indices have")
        return f"{which} more copies than asked for; they are removed when the cluster is Green."
    if nodes.present <= copies and any(found < copies for found in matching.values()):
        there = nodes.present
        more = nodes.staying - nodes.present
        joining = f"; {_counted(more, 'more is', 'more are')} to join" if more > 0 else ""
        return f"{number} of a shard need {copies + 1} data nodes, and there are {there}{joining}."
    return f"Copies are being built: the cluster's health is {health or 'unknown'}."


def _matches(name: str, patterns: Sequence[str]) -> bool:
    """Without patterns: all but those of Elasticsearch itself, which begin with a dot."""
    if not patterns:
        return not name.startswith(".")
    # A bracket is a character like any other.
    return any(fnmatchcase(name, pattern.replace("[", "[[]")) for pattern in patterns)


def _batches(names: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Lists of names that fit into a path."""
    batch: list[str] = []
    length = 0
    for name in names:
        size = len(name.encode()) + 1
        if batch and length + size > _LONGEST_LIST:
            yield tuple(batch)
            batch, length = [], 0
        batch.append(name)
        length += size
    if batch:
        yield tuple(batch)


def _counted(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}"
