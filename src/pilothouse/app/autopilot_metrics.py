"""The metrics of rules, with the names that Portworx' Autopilot has for them.

    totals = RuleTotals()
    totals.follow(informers)
    "".join(totals.families(errors=0))

Totals change with each object, so that a page costs the same however many objects there are. Objects are
named by uid alone: anyone may read the page.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final, TypeVar

from pilothouse.api.kind_names import (
    ApplicationAction,
    AutopilotRule,
    AutopilotRuleObject,
    Deployment,
    Node,
    PersistentVolumeClaim,
    Pod,
    StatefulSet,
    StoragePool,
)
from pilothouse.api.objects import Object
from pilothouse.base.prometheus_text import counter, gauge, header, labels
from pilothouse.client.object_cache import CacheChange
from pilothouse.client.shared_informers import SharedInformers
from pilothouse.runtime.engine import Engine

if TYPE_CHECKING:
    from pilothouse.rules.providers.embedded import ScrapeCounts

K = TypeVar("K")
_NORMAL: Final = "Normal"
_DECLINED: Final = "ActionsDeclined"
_FAILED: Final = frozenset({"Failed", "Canceled"})
_VOLUME: Final = "volume"
_APPLICATION: Final = "application"
_TYPES: Final = {
    PersistentVolumeClaim.kind: _VOLUME,
    StatefulSet.kind: "workload",
    Deployment.kind: "workload",
    **{noun.kind: noun.kind.lower() for noun in (Node, Pod, StoragePool)},
}
"""By kind; the others are those of applications."""
_MOST_OBJECTS: Final = 1000
"""How many objects have failures of their own; those of later ones are counted without an object."""


class RuleTotals:
    """Counts of rules, their objects and their actions. What was done is counted from the actions that exist
    at the start on, and is not forgotten when they are deleted."""

    def __init__(self) -> None:
        self._actions: dict[str, str] = {}
        """The action of each rule, by the rule's name."""
        self._states: Counter[tuple[str, str]] = Counter()
        """AutopilotRuleObjects by the name of the rule and the state."""
        self._objects: Counter[tuple[str, str]] = Counter()
        """AutopilotRuleObjects by the type and the uid of the object."""
        self._types: Counter[str] = Counter({_VOLUME: 0})
        """How many of these objects there are of each type."""
        self._declined: Counter[tuple[str, str]] = Counter()
        """By the name of the rule, and the uid of the object."""
        self._failed: Counter[tuple[str, str]] = Counter()
        """By action, and the uid of the object."""
        self._taken = 0
        self._seconds: Counter[tuple[str, str]] = Counter()
        """By action, and the name of the rule."""
        self._measured: Counter[tuple[str, str]] = Counter()
        self._named: set[str] = set()

    def follow(self, informers: SharedInformers) -> None:
        """Count from here on, as long as the informers run."""
        informers.get(AutopilotRule).subscribe(self.rule_changed)
        informers.get(AutopilotRuleObject).subscribe(self.rule_object_changed)
        informers.get(ApplicationAction).subscribe(self.action_changed)

    def rule_changed(self, change: CacheChange) -> None:
        before, after = change
        if after is not None:
            actions = after.spec.get("actions") or [{}]
            self._actions[after.name] = str(actions[0].get("name", ""))
        elif before is not None:
            self._actions.pop(before.name, None)

    def rule_object_changed(self, change: CacheChange) -> None:
        before, after = change
        _move(self._states, _state(before), _state(after))
        self._count_object(_typed(before), _typed(after))
        if after is not None and _is_declined(after) and not (before is not None and _is_declined(before)):
            self._declined[_rule(after), self._label(_object(after) or "")] += 1

    def action_changed(self, change: CacheChange) -> None:
        before, after = change
        if after is None or (before is not None and _phase(before) == _phase(after)):
            return
        action = str(after.spec.get("action", ""))
        uid = str(after.at("spec", "object", "uid", default=""))
        if _phase(after) in _FAILED:
            self._failed[action, self._label(uid)] += 1
        elif _phase(after) == "Succeeded":
            self._taken += 1
            began, ended = after.moment("status", "startTime"), after.moment("status", "completionTime")
            if began is not None and ended is not None:
                key = action, str(after.spec.get("rule", ""))
                # Clocks that are set make no time negative.
                self._seconds[key] += max(0, round(ended - began))
                self._measured[key] += 1

    def families(self, errors: int) -> Iterator[str]:
        """The page; ``errors`` are those of the controllers."""
        yield gauge("autopilot_rules_in_system", "AutopilotRules.", [("", len(self._actions))])
        yield gauge("autopilot_objects_total", "AutopilotRuleObjects.", [("", sum(self._states.values()))])
        stable = sum(number for (_, state), number in self._states.items() if state == _NORMAL)
        yield gauge(
            "autopilot_objects_in_stable_condition_total",
            "AutopilotRuleObjects in the state Normal.",
            [("", stable)],
        )
        yield gauge(
            "autopilot_objects_with_rules_total",
            "Objects that have an AutopilotRuleObject.",
            [(labels(object_type=kind), number) for kind, number in sorted(self._types.items())],
        )
        yield gauge(
            "autopilot_rule_state_total",
            "AutopilotRuleObjects by action and state.",
            [(labels(action=action, state=state), number) for (action, state), number in self._by_action()],
        )
        yield counter(
            "autopilot_action_taken_total", "ApplicationActions that succeeded.", [("", self._taken)]
        )
        yield counter(
            "autopilot_action_failed_total",
            "Actions that were declined or failed, by the uid of their object.",
            sorted(self._failures()),
        )
        yield self._durations()
        yield counter("autopilot_errors_total", "Decisions about rules that raised an error.", [("", errors)])

    def _count_object(self, source: tuple[str, str] | None, to: tuple[str, str] | None) -> None:
        known = self._objects.keys() & {source, to}
        _move(self._objects, source, to)
        for one in (source, to):
            if one is not None and source != to:
                self._types[one[0]] += (one in self._objects) - (one in known)

    def _by_action(self) -> list[tuple[tuple[str, str], int]]:
        found: Counter[tuple[str, str]] = Counter()
        for (rule, state), number in self._states.items():
            found[self._actions.get(rule, ""), state] += number
        return sorted(found.items())

    def _failures(self) -> Iterator[tuple[str, int]]:
        declined: Counter[tuple[str, str]] = Counter()
        for (rule, uid), number in self._declined.items():
            declined[self._actions.get(rule, ""), uid] += number
        for state, found in (("declined", declined), ("failed", self._failed)):
            for (action, uid), number in found.items():
                yield labels(state=state, object=uid, action=action), number

    def _durations(self) -> str:
        name = "autopilot_action_duration"
        lines = [header(name, "summary", "Seconds from the start to the end of actions that succeeded.")]
        for (action, rule), number in sorted(self._measured.items()):
            text = labels(action=action, rule_name=rule)
            lines.append(f"{name}_sum{{{text}}} {self._seconds[action, rule]}\n")
            lines.append(f"{name}_count{{{text}}} {number}\n")
        return "".join(lines) if len(lines) > 1 else ""

    def _label(self, uid: str) -> str:
        if uid not in self._named and len(self._named) >= _MOST_OBJECTS:
            return ""
        self._named.add(uid)
        return uid


def rule_errors(engines: Iterable[Engine]) -> int:
    """How many decisions about rules, their objects and their actions raised an error."""
    own = (AutopilotRule, AutopilotRuleObject, ApplicationAction)
    return sum(
        one.counters.errors
        for one in engines
        if one.controller.sampled is not None or one.controller.primary in own
    )


def scrape_families(counts: ScrapeCounts) -> Iterator[str]:
    """What the managers' own scrapes of metrics pages came to."""
    for name, help, value in (
        ("scrapes", "Metrics pages that were asked for.", counts.scrapes),
        ("scrape_failures", "Metrics pages that could not be read.", counts.failures),
        (
            "foreign_series",
            "Series, by page and scrape, that were dropped: they are about what their target does not own.",
            counts.foreign_series,
        ),
        ("malformed_lines", "Lines of metrics pages that are no samples.", counts.malformed_lines),
        ("dropped_lines", "Lines of metrics pages beyond a page's limit.", counts.dropped_lines),
    ):
        yield counter(f"pilothouse_rule_{name}_total", help, [("", value)])


def _move(counts: Counter[K], source: K | None, to: K | None) -> None:
    """Count one less of the source, and one more of the other; None is not counted."""
    if source == to:
        return
    if source is not None:
        counts[source] -= 1
        if not counts[source]:
            del counts[source]
    if to is not None:
        counts[to] += 1


def _state(rule_object: Object | None) -> tuple[str, str] | None:
    """The name of its rule, and its state."""
    if rule_object is None:
        return None
    return _rule(rule_object), str(rule_object.status.get("state") or "Initializing")


def _rule(rule_object: Object) -> str:
    return str((rule_object.controller or {}).get("name", ""))


def _object(rule_object: Object | None) -> str | None:
    """The uid; None as long as it is not on record."""
    return None if rule_object is None else rule_object.at("status", "object", "uid")


def _typed(rule_object: Object | None) -> tuple[str, str] | None:
    """The type and the uid."""
    uid = _object(rule_object)
    if rule_object is None or uid is None:
        return None
    return _TYPES.get(str(rule_object.at("status", "object", "kind", default="")), _APPLICATION), uid


def _is_declined(rule_object: Object) -> bool:
    return rule_object.status.get("state") == _DECLINED


def _phase(action: Object) -> str:
    return str(action.status.get("phase") or "")
