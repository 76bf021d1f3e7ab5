"""What rules would have done over recorded series, and how full volumes would have been.

    result = backtest([terms], series)
    result.actions, result.volumes[0].last_size, result.minutes_above

Objects are those that the series name. Selectors are not applied, since a recording has no labels of objects.
Approvals are granted at once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
import numpy as np

from pilothouse.api.objects import Object
from pilothouse.api.openstorage.v1alpha1 import ActionBudget
from pilothouse.base.plurals import counted
from pilothouse.base.quantity import BINARY, NANO, Quantity, parse_quantity
from pilothouse.rules.action_budgets import GLOBAL_BUDGET, with_defaults
from pilothouse.rules.join_labels import object_key
from pilothouse.rules.object_records import NORMAL, TRIGGERED, RuleTerms
from pilothouse.rules.promql.label_sets import NAME
from pilothouse.rules.promql.memory_series import MemorySeries
from pilothouse.rules.promql.queries import Query, compile_query
from pilothouse.rules.promql.vectors import Floats, Times
from pilothouse.rules.rule_queries import rule_queries
from pilothouse.rules.series_store import WantedSeries
from pilothouse.rules.virtual_run import CAPACITY, ModelledRules, VirtualAction, VirtualRun

DAY: Final = 86400.0
NEARLY_FULL: Final = 0.95
USED: Final = ("kubelet_volume_stats_used_bytes", "px_volume_usage_bytes", "px_volume_fs_usage_bytes")
_LONGEST_STEP: Final = 300_000
"""Milliseconds after which a sample says nothing any more."""


class VolumeCourse(msgspec.Struct, frozen=True, rename="camel"):
    """Sizes and usage of one volume over the recording."""

    name: str
    first_size: str
    last_size: str
    actions: int
    minutes_above: float
    """Minutes in which it was fuller than 95 %."""
    used: Sequence[tuple[float, float]] = ()
    """Times and bytes, for charts."""
    capacity: Sequence[tuple[float, float]] = ()


class BacktestResult(msgspec.Struct, frozen=True, rename="camel"):
    rules: tuple[str, ...]
    start: float
    end: float
    actions: tuple[VirtualAction, ...]
    flaps: int
    """How often conditions were met and cleared again before an action."""
    volumes: tuple[VolumeCourse, ...]
    warnings: tuple[str, ...] = ()

    @property
    def actions_a_day(self) -> float:
        return len(self.actions) / max((self.end - self.start) / DAY, 1e-9)

    @property
    def refused(self) -> int:
        """How many actions the storage refused."""
        return sum(each.refused for each in self.actions)

    @property
    def minutes_above(self) -> float:
        return sum(each.minutes_above for each in self.volumes)


class BacktestError(ValueError):
    """Nothing can be computed; the message says why."""


def queries_of(rules: Sequence[RuleTerms]) -> list[Query]:
    """All that rules read, and what the report needs. Raises ``QueryError`` or ``NotInSubset``."""
    return [*_asked_by(rules), *map(compile_query, (*CAPACITY, *USED))]


def _asked_by(rules: Sequence[RuleTerms]) -> list[Query]:
    texts = {text for rule in rules for text in rule_queries(rule.spec).expressions if text}
    return list(map(compile_query, sorted(texts)))


def backtest(
    rules: Sequence[RuleTerms],
    series: MemorySeries,
    *,
    refuses_after: int | None = None,
    budget: ActionBudget | None = None,
) -> BacktestResult:
    """The series are left as they are. With ``refuses_after`` the storage grows each volume so many times.
    ``budget`` is of all rules together; what it leaves out has its default.
    Rules that can't be modelled are left out, with a warning, unless none is left.

    Raises ``BacktestError``, ``QueryError``, ``NotInSubset``.
    """
    modelled = ModelledRules.of(rules)
    if not modelled.rules:
        raise BacktestError("; ".join(modelled.skipped) or "there is no rule")
    rules, series = modelled.rules, series.copy()
    claims, warnings = _claims(series, WantedSeries(_asked_by(rules)))
    if not claims:
        raise BacktestError("no series of a capacity says how large a volume is")
    warnings = [*(f"{why}; it is left out" for why in modelled.skipped), *warnings]
    plain = []
    for rule in rules:
        if rule.spec.selector or rule.spec.namespace_selector:
            warnings.append(f"rule {rule.name}: its selectors are not looked at")
        spec = msgspec.structs.replace(rule.spec, selector=None, namespace_selector=None)
        plain.append(msgspec.structs.replace(rule, spec=spec))
    start, end = (time / 1000 for time in series.span)
    try:
        run = VirtualRun(
            plain,
            claims,
            series,
            start=math.ceil(start),
            approves=True,
            refuses_after=refuses_after,
            budget=with_defaults(budget, GLOBAL_BUDGET),
        )
    except ValueError as problem:
        raise BacktestError(str(problem)) from None
    run.until(end)
    flaps = sum((each.source, each.to) == (TRIGGERED, NORMAL) for each in run.transitions)
    courses = tuple(_courses(run, claims, series))
    return BacktestResult(
        tuple(rule.name for rule in rules), start, end, tuple(run.actions), flaps, courses, tuple(warnings)
    )


def _claims(series: MemorySeries, read: WantedSeries) -> tuple[list[Object], list[str]]:
    """A claim for each object that rules read and whose size is in the series.

    The figures of a volume may be there under two names, by claim and by volume: rules read one of them."""
    found: dict[tuple[str, ...], float] = {}
    keys = {labels: object_key(labels.labels) for labels, _, _ in series.all()}
    seen = {
        key
        for labels, key in keys.items()
        if key is not None and key[0] in ("volume", "claim") and read.selects(labels.labels)
    }
    for labels, _, values in series.all():
        key = keys[labels]
        if key is None or key not in seen:
            continue
        known = values[np.isfinite(values)]
        if labels.labels.get(NAME) in CAPACITY and len(known):
            found[key] = max(found.get(key, 0.0), float(known[0]))
    warnings = [f"{'/'.join(key[1:])}: no series says how large it is" for key in sorted(seen - found.keys())]
    return [_claim(key, size, number) for number, (key, size) in enumerate(sorted(found.items()))], warnings


def _claim(key: tuple[str, ...], size: float, number: int) -> Object:
    storage = str(Quantity(int(size) * NANO, BINARY))
    namespace = key[1] if key[0] == "claim" else ""
    tree: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"namespace": namespace, "name": key[-1], "uid": f"claim-{number}"},
        "spec": {
            "volumeName": key[-1] if key[0] == "volume" else f"volume-{number}",
            "resources": {"requests": {"storage": storage}},
        },
        "status": {"phase": "Bound", "capacity": {"storage": storage}},
    }
    return Object.of(tree)


def _courses(run: VirtualRun, before: Sequence[Object], series: MemorySeries) -> list[VolumeCourse]:
    by_object: dict[tuple[str, ...], dict[str, tuple[Times, Floats]]] = {}
    for labels, times, values in series.all():
        if (key := object_key(labels.labels)) is not None:
            by_object.setdefault(key, {})[labels.labels.get(NAME, "")] = times, values
    found = []
    for position, (old, new) in enumerate(zip(before, run.claims, strict=True)):
        name = run.name(position)
        key = ("claim", old.namespace, old.name) if old.namespace else ("volume", old.name)
        known = by_object.get(key, {})
        used = next((known[each] for each in USED if each in known), None)
        capacity = next((known[each] for each in CAPACITY if each in known), None)
        found.append(
            VolumeCourse(
                name.removeprefix("/"),
                _size(old),
                _size(new),
                sum(each.object == name for each in run.actions),
                _minutes_above(used, capacity),
                _thinned(used),
                _thinned(capacity),
            )
        )
    return found


def _size(claim: Object) -> str:
    size = parse_quantity(claim.at("status", "capacity", "storage")).to_int()
    return f"{size / 2**30:.3g}Gi" if size >= 2**30 else f"{size / 2**20:.4g}Mi"


def _minutes_above(used: tuple[Times, Floats] | None, capacity: tuple[Times, Floats] | None) -> float:
    if used is None or capacity is None or len(used[0]) < 2 or not len(capacity[0]):
        return 0.0
    at = np.maximum(np.searchsorted(capacity[0], used[0], side="right") - 1, 0)
    above = used[1] > NEARLY_FULL * capacity[1][at]
    steps = np.minimum(np.diff(used[0]), _LONGEST_STEP)
    return round(float(steps[above[:-1]].sum()) / 60_000, 1)


def _thinned(samples: tuple[Times, Floats] | None, most: int = 300) -> list[tuple[float, float]]:
    """As many points as a chart shows."""
    if samples is None or not len(samples[0]):
        return []
    chosen = np.unique(np.linspace(0, len(samples[0]) - 1, most).astype(np.int64))
    pairs = zip(samples[0][chosen].tolist(), samples[1][chosen].tolist(), strict=True)
    return [(time / 1000, value) for time, value in pairs if math.isfinite(value)]


def difference(first: BacktestResult, second: BacktestResult) -> list[str]:
    """In which volumes two runs differ."""
    others: Mapping[str, VolumeCourse] = {each.name: each for each in second.volumes}
    found = []
    for each in first.volumes:
        other = others.get(each.name)
        if other is None or (each.last_size, each.actions) == (other.last_size, other.actions):
            continue
        found.append(
            f"{each.name}: {each.last_size} after {counted(each.actions, 'action')}, "
            f"{other.last_size} after {other.actions}"
        )
    return found
