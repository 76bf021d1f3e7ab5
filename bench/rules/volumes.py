"""Claims, records and answers that are at hand: what a pass over all rules works on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from pilothouse.api.kind_names import AutopilotRuleObject, PersistentVolumeClaim
from pilothouse.api.objects import Object, Trees
from pilothouse.rules.join_labels import DEFAULT_LABELS, JoinLabels
from pilothouse.rules.rule_object_status import new_rule_object
from pilothouse.rules.rule_watch import RuleWatch
from pilothouse.rules.samples import Answer, Sample
from pilothouse.runtime.snapshot import StaticView

SPACES: Final = 100
_TREES: Final = Trees()
"""As in a manager, which keeps few objects decoded."""


class FixedCache(StaticView):
    """Objects that do not change."""

    def subscribe(self, changed: Callable[[Object | None, Object | None], None]) -> Callable[[], None]:
        return lambda: None


class ReadyAnswers(msgspec.Struct):
    """A provider whose volumes are all a third full."""

    claims: Sequence[Object]
    answers: dict[str, list[Sample]] = {}
    queries: int = 0

    @property
    def provider(self) -> ReadyAnswers:
        return self

    @property
    def labels(self) -> JoinLabels:
        return DEFAULT_LABELS

    def get(self, name: str) -> ReadyAnswers:
        return self

    async def query(self, expressions: Sequence[str], now: float) -> Mapping[str, Answer]:
        self.queries += 1
        for text in expressions:
            if text not in self.answers:
                self.answers[text] = [Sample(labels_of(one), 30.0, now) for one in self.claims]
        return {text: self.answers[text] for text in expressions}


def labels_of(claim: Object) -> dict[str, str]:
    return {"namespace": claim.namespace, "persistentvolumeclaim": claim.name, "node": "n1"}


def claim(number: int) -> Object:
    tree = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": f"data-{number}",
            "namespace": f"ns-{number % SPACES}",
            "uid": f"claim-{number}",
        },
        "spec": {"volumeName": f"pvc-{number}", "resources": {"requests": {"storage": "8Gi"}}},
        "status": {"phase": "Bound", "capacity": {"storage": "8Gi"}},
    }
    return Object(PersistentVolumeClaim, msgspec.json.encode(tree), _TREES)


def record(rule: Object, claim: Object, **status: Any) -> Object:
    tree: dict[str, Any] = new_rule_object(rule, claim)
    about = {"kind": claim.kind, "name": claim.name, "uid": claim.uid}
    tree["status"] = {"state": "Normal", "object": about, **status}
    return Object(AutopilotRuleObject, msgspec.json.encode(tree), _TREES)


async def looked(watch: RuleWatch) -> None:
    """Wait for the first pass."""
    while True:
        await asyncio.sleep(0.01)
        if watch.idle:
            return
