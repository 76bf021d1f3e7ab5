"""Why shards are unassigned, in Elasticsearch's own words.

    inquiry = AllocationExplain()
    if inquiry.is_due(facts, now): inquiry.learn(await node.get(EXPLAIN, filter_path=EXPLAIN_FILTER))
    inquiry.answer       # "the replica of shard 0 of logs has no place: es-demo-data-1: the node is above …"

Only a cluster with unassigned shards in which nothing moves is asked, after each change and periodically,
since disks fill without a change of the cluster.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

EXPLAIN: Final = "/_cluster/allocation/explain"
EXPLAIN_FILTER: Final = ",".join(
    (
        "index",
        "shard",
        "primary",
        "allocate_explanation",
        "node_allocation_decisions.node_name",
        "node_allocation_decisions.deciders.decider",
        "node_allocation_decisions.deciders.explanation",
    )
)
_OFTEN: Final = 300.0
"""Seconds after which the same question is asked again."""
_MOST: Final = 3
"""How many different reasons are reported."""
_LONGEST: Final = 600
_HAS_A_COPY: Final = "same_shard"
_HAS_IT: Final = "it has a copy already"


class AllocationExplain:
    def __init__(self) -> None:
        self._about: object = None
        self._asked = 0.0
        self.answer = ""

    def is_due(self, facts: Mapping[str, Any], now: float) -> bool:
        """Whether to ask, by what the leading pilot knows of the cluster. Drops an outdated answer."""
        shards = facts.get("shards") or {}
        if not (facts.get("settled") and shards.get("unassigned")):
            self._about, self.answer = None, ""
            return False
        about = (facts.get("health"), facts.get("nodes"), *sorted(shards.items()))
        if about == self._about and now - self._asked < _OFTEN:
            return False
        if about != self._about:
            self.answer = ""
        self._about, self._asked = about, now
        return True

    def learn(self, answer: Mapping[str, Any]) -> None:
        self.answer = explanation(answer)


def explanation(answer: Mapping[str, Any]) -> str:
    """The explanation for one shard, the first that is unassigned; nodes with the same reason are joined."""
    if "index" not in answer:
        return ""
    copy = "primary" if answer.get("primary") else "replica"
    reasons: dict[str, list[str]] = {}
    for node in answer.get("node_allocation_decisions") or ():
        reasons.setdefault(_objection(node.get("deciders") or ()), []).append(str(node.get("node_name")))
    reasons.pop("", None)
    # That a node has a copy already is the least interesting reason.
    ordered = sorted(reasons.items(), key=lambda each: (each[0] == _HAS_IT, each[1]))
    said = [f"{', '.join(sorted(names))}: {reason}" for reason, names in ordered[:_MOST]]
    why = "; ".join(said) or str(answer.get("allocate_explanation") or "")
    text = f"the {copy} of shard {answer.get('shard', 0)} of {answer['index']} can't be allocated: {why}"
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _objection(deciders: Any) -> str:
    """Why a node does not take a shard; of a node that has a copy already, just that."""
    said = {str(each.get("decider")): str(each.get("explanation") or "") for each in deciders}
    if _HAS_A_COPY in said:
        return _HAS_IT
    return next(iter(said.values()), "")
