"""What a rule would do at one moment: its objects, their values, and the actions that follow.

    report = rule_report(terms, answers, selected_claims(terms, claims, pods, namespaces))
    report.objects[0].readings[0].met, report.objects[0].would

The verdicts are those of the engine. Timers, windows, budgets and approvals are not looked at: ``would`` says
what is done once they allow it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec
import numpy as np

from pilothouse.api.objects import Object
from pilothouse.rules.action_targets import NoObjects, is_bound, target_text
from pilothouse.rules.join import ObjectIndex, join
from pilothouse.rules.join_labels import DEFAULT_LABELS, JoinLabels, object_key
from pilothouse.rules.object_records import RuleTerms
from pilothouse.rules.rule_queries import rule_queries
from pilothouse.rules.rule_selection import RuleSelection
from pilothouse.rules.samples import Answer, QueryFailure
from pilothouse.rules.targets.target_table import target_of
from pilothouse.rules.verdict import Verdict
from pilothouse.rules.verdicts import Series, ThresholdComparison, combined, compared


class ExpressionReading(msgspec.Struct, frozen=True, rename="camel"):
    """The values that one expression has for one object."""

    expression: str
    operator: str
    threshold: tuple[str, ...]
    values: tuple[float, ...]
    met: bool | None
    """None if there is no value to compare."""


class ObjectReport(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    namespace: str
    volume: str
    readings: tuple[ExpressionReading, ...]
    met: bool | None
    would: str = ""
    """What is done if it is met."""


class RuleReport(msgspec.Struct, frozen=True, rename="camel"):
    rule: str
    objects: tuple[ObjectReport, ...] = ()
    failures: tuple[str, ...] = ()
    """Why expressions have no answer."""
    warnings: tuple[str, ...] = ()


class ReportedObjects(msgspec.Struct, frozen=True):
    """The objects of a report, in the order of their index."""

    index: ObjectIndex
    claims: Sequence[Object | None]
    """None for an object that only series name."""
    names: Sequence[tuple[str, str, str]]
    """Namespace, name and volume."""


def selected_claims(
    terms: RuleTerms, claims: Iterable[Object], pods: Iterable[Object], namespaces: Iterable[Object]
) -> ReportedObjects:
    """The bound claims that a rule selects. Raises ``SelectorError``."""
    selection = RuleSelection.of(terms.spec)
    known = {one.name: one for one in namespaces}
    found = [one for one in claims if is_bound(one) and selection.matches(one, known.get(one.namespace))]
    found.sort(key=lambda one: one.key)
    names = [(one.namespace, one.name, str(one.spec.get("volumeName", ""))) for one in found]
    return ReportedObjects(ObjectIndex.of_claims(found, pods), found, names)


def named_by_series(answers: Iterable[Answer], labels: JoinLabels = DEFAULT_LABELS) -> ReportedObjects:
    """All objects that series name, where no API server says which there are."""
    keys: dict[tuple[str, ...], tuple[int, ...]] = {}
    for answer in answers:
        if not isinstance(answer, QueryFailure):
            for sample in answer:
                key = object_key(sample.labels, labels)
                if key is not None and key not in keys:
                    keys[key] = (len(keys),)
    names = [(key[1] if len(key) > 2 else "", key[-1], key[-1] if key[0] == "volume" else "") for key in keys]
    return ReportedObjects(ObjectIndex((), keys), [None] * len(keys), names)


def rule_report(
    terms: RuleTerms,
    answers: Mapping[str, Answer],
    objects: ReportedObjects,
    labels: JoinLabels = DEFAULT_LABELS,
) -> RuleReport:
    """``answers`` are by the text of the query."""
    queries = rule_queries(terms.spec)
    if queries.refusal is not None:
        return RuleReport(terms.name, failures=(queries.refusal.message,))
    if queries.about != "volume" or any(one.level != "volume" for one in queries.conditions):
        problem = "only conditions of volumes can be shown; `rule explain` shows those of a stored rule"
        return RuleReport(terms.name, failures=(problem,))
    count = len(objects.claims)
    held = np.zeros(count, np.bool_)
    failures, warnings = [], []
    verdicts, values = [], []
    for text, expression in zip(queries.expressions, terms.spec.conditions.expressions, strict=True):
        answer = answers.get(text, QueryFailure("ProviderUnavailable", "no answer"))
        if isinstance(answer, QueryFailure):
            failures.append(f"{text}: {answer.reason}: {answer.message}")
            answer = ()
        joined = join(answer, objects.index, labels)
        if joined.unmatched:
            warnings.append(f"{text}: {joined.unmatched} series have no label that names an object")
        if several := len(joined.several(count)):
            warnings.append(f"{text}: {several} objects have several series; one that is met is enough")
        found: list[list[float]] = [[] for _ in range(count)]
        for position, value in zip(joined.object_of.tolist(), joined.values.tolist(), strict=True):
            found[position].append(value)
        values.append(found)
        verdicts.append(
            compared(ThresholdComparison.of(expression), Series(joined.object_of, joined.values), held)
        )
    outcome = combined(verdicts, terms.spec.conditions.required_matches)
    reports = []
    for number, (claim, (namespace, name, volume)) in enumerate(
        zip(objects.claims, objects.names, strict=True)
    ):
        readings = tuple(
            ExpressionReading(
                expression.key_alias or expression.key or expression.expression or "",
                expression.operator or "",
                expression.values,
                tuple(values[which][number]),
                _met(int(verdicts[which][number])),
            )
            for which, expression in enumerate(terms.spec.conditions.expressions)
        )
        met = _met(int(outcome[number]))
        reports.append(
            ObjectReport(name, namespace, volume, readings, met, _would(terms, claim) if met else "")
        )
    return RuleReport(terms.name, tuple(reports), tuple(failures), tuple(warnings))


def _met(verdict: int) -> bool | None:
    return None if verdict == Verdict.UNKNOWN else verdict == Verdict.MET


def _would(terms: RuleTerms, claim: Object | None) -> str:
    parts = []
    if terms.spec.candidates:
        names = ", ".join(one.name for one in terms.spec.candidates)
        return f"the first of these candidates that holds: {names}"
    for action in terms.spec.actions:
        if claim is None:
            verb = action.name.rpartition(".")[2]
            params = " ".join(f"{name}={value}" for name, value in sorted(action.params.items()))
            parts.append(f"{verb} {params}".strip())
        else:
            parts.append(target_text(action, target_of(action, claim, NoObjects())))
    return "; ".join(parts)
