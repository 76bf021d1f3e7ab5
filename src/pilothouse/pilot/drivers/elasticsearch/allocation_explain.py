"""Why shards stay without a node, in Elasticsearch's own words.

    inquiry = AllocationExplain()
    if inquiry.is_due(facts, now): inquiry.learn(await node.get(EXPLAIN, filter_path=EXPLAIN_FILTER))
    inquiry.answer                # "the replica of shard 0 of logs can't be allocated: es-demo-data-1: the node is above the low watermark …"

It is asked only of a cluster that has such shards and in which nothing moves, so that waiting does not help;
once for each change of what there is, and now and then again, since disks fill without anybody telling. A
cluster that is Green is never asked.
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
"""How many different reasons are told."""
_LONGEST: Final = 600
_HAS_A_COPY: Final = "same_shard"
_HAS_IT: Final = "it has a copy already"


class AllocationExplain:
    """What was asked, and answered."""

    def __init__(self) -> None:
        self._about: object = None
        self._asked = 0.0
        self.answer = ""

    def is_due(self, facts: Mapping[str, Any], now: float) -> bool:
        """Whether to ask, by what the leading pilot knows of the cluster. Forgets what no longer counts."""
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
    """Of one shard: Elasticsearch takes the first that has no node. Nodes that have the same to say are told
    together."""
    if "index" not in answer:
        return ""
    copy = "primary" if answer.get("primary") else "replica"
    reasons: dict[str, list[str]] = {}
    for node in answer.get("node_allocation_decisions") or ():
        reasons.setdefault(_objection(node.get("deciders") or ()), []).append(str(node.get("node_name")))
    reasons.pop("", None)
    # That a node has a copy of its own is no fault of anybody's.
    told = sorted(reasons.items(), key=lambda each: (each[0] == _HAS_IT, each[1]))
    said = [f"{', '.join(sorted(names))}: {reason}" for reason, names in told[:_MOST]]
    why = "; ".join(said) or str(answer.get("allocate_explanation") or "")
    text = f"the {copy} of shard {answer.get('shard', 0)} of {answer['index']} can't be allocated: {why}"
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _objection(deciders: Any) -> str:
    """What a node has against a shard; who has a copy of it already need not say more."""
    said = {str(each.get("decider")): str(each.get("explanation") or "") for each in deciders}
    if _HAS_A_COPY in said:
        return _HAS_IT
    return next(iter(said.values()), "")
