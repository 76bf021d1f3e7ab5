"""Unit tests of rules: series, objects, and the states and actions that are expected at certain times.

    tests:
    - interval: 1m
      input_series:
      - series: 'kubelet_volume_stats_used_bytes{namespace="db",persistentvolumeclaim="data"}'
        values: '0+10x60 _x5 stale'
      objects:
      - {metadata: {namespace: db, name: data}, spec: {resources: {requests: {storage: 320Mi}}}}
      rule_test:
      - {eval_time: 5m, object: db/data, exp_state: Triggered, exp_actions: [480Mi]}

The form is that of promtool's tests, with ``objects`` and ``rule_test`` of our own. Time begins at 0.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from pilothouse.api.objects import Object
from pilothouse.rules.metrics_pages import parse_series
from pilothouse.rules.object_records import RuleTerms
from pilothouse.rules.promql.memory_series import MemorySeries
from pilothouse.rules.promql.query_errors import NotInSubset, QueryError
from pilothouse.rules.promql.vectors import STALE
from pilothouse.rules.virtual_run import ModelledRules, VirtualRun

MOST_SAMPLES: Final = 5_000_000
_DURATION: Final = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?")
_NUMBER: Final = r"(?:[0-9]*\.?[0-9]+(?:[eE][-+]?[0-9]+)?|[iI]nf|NaN)"
_RAMP: Final = re.compile(rf"([-+]?{_NUMBER})(?:([-+])({_NUMBER}))?x([0-9]{{1,7}})")
_SILENCE: Final = re.compile(r"_(?:x([0-9]{1,7}))?")


class FixtureError(ValueError):
    """A file of tests that can't be read; the message says where."""


class FixtureMismatch(msgspec.Struct, frozen=True, rename="camel"):
    """What was expected, and what came."""

    test: str
    eval_time: str
    object: str
    what: str
    expected: Any
    found: Any


class FixtureOutcome(msgspec.Struct, frozen=True):
    checks: int
    mismatches: tuple[FixtureMismatch, ...]
    warnings: tuple[str, ...] = ()
    """Why rules were left out."""


def run_fixtures(tree: Any, rules: Sequence[RuleTerms]) -> FixtureOutcome:
    """Rules that can't be modelled are left out, with a warning, unless none is left. Raises
    ``FixtureError``."""
    modelled = ModelledRules.of(rules)
    if not modelled.rules:
        raise FixtureError("; ".join(modelled.skipped) or "there is no rule")
    if not isinstance(tree, dict) or not isinstance(tree.get("tests"), list):
        raise FixtureError("there is no list of tests")
    default = _seconds(tree.get("evaluation_interval", "1m"), "evaluation_interval")
    checks = 0
    mismatches: list[FixtureMismatch] = []
    for number, test in enumerate(tree["tests"]):
        path = f"tests[{number}]"
        if not isinstance(test, dict):
            raise FixtureError(f"{path}: must be a mapping")
        found, count = _run(test, path, modelled.rules, default)
        mismatches += found
        checks += count
    warnings = tuple(f"{why}; it is left out" for why in modelled.skipped)
    return FixtureOutcome(checks, tuple(mismatches), warnings)


def _run(
    test: Mapping[str, Any], path: str, rules: Sequence[RuleTerms], default: float
) -> tuple[list[FixtureMismatch], int]:
    interval = _seconds(test.get("interval", default), f"{path}.interval")
    series = _series(test, path, interval)
    objects = [_object(tree, f"{path}.objects[{number}]") for number, tree in _listed(test, "objects", path)]
    claims = [one for one in objects if one.kind == "PersistentVolumeClaim"]
    checks = [
        (_seconds(tree.get("eval_time", 0), f"{path}.rule_test[{number}].eval_time"), number, tree)
        for number, tree in _listed(test, "rule_test", path)
    ]
    try:
        run = VirtualRun(
            rules,
            claims,
            series,
            start=0.0,
            namespaces=[one for one in objects if one.kind == "Namespace"],
            pods=[one for one in objects if one.kind == "Pod"],
            approves=bool(test.get("approve", False)),
        )
    except (QueryError, NotInSubset, ValueError) as problem:
        raise FixtureError(f"{path}: a rule can't be evaluated: {problem}") from None
    name = str(test.get("name") or path)
    mismatches: list[FixtureMismatch] = []
    for time, number, check in sorted(checks, key=lambda each: each[:2]):
        try:
            run.until(time)
            mismatches += _compared(run, check, name, f"{path}.rule_test[{number}]", rules)
        except QueryError as problem:
            raise FixtureError(f"{path}: {problem}") from None
    return mismatches, len(checks)


def _compared(
    run: VirtualRun, check: Mapping[str, Any], name: str, path: str, rules: Sequence[RuleTerms]
) -> Iterator[FixtureMismatch]:
    known = [one.name for one in rules]
    rule = str(check.get("rule") or (known[0] if len(known) == 1 else ""))
    if rule not in known:
        raise FixtureError(f"{path}.rule: must be one of {', '.join(known)}")
    if unknown := sorted(set(check) - {"eval_time", "rule", "object", "exp_state", "exp_actions"}):
        raise FixtureError(f"{path}.{unknown[0]}: not a field")
    wanted = str(check.get("object", ""))
    try:
        state = run.state(rule, wanted)
    except KeyError:
        raise FixtureError(f"{path}.object: there is no {wanted!r} among the objects") from None
    at = str(check.get("eval_time", "0s"))
    if "exp_state" in check and (check["exp_state"] or None) != state:
        yield FixtureMismatch(name, at, wanted, "state", check["exp_state"], state)
    if "exp_actions" in check:
        taken = [
            {"action": each.action, **each.target}
            for each in run.actions
            if (each.object, each.rule) == (wanted, rule)
        ]
        expected = check["exp_actions"] or []
        fits = len(expected) == len(taken) and all(map(_fits, expected, taken))
        if not fits:
            yield FixtureMismatch(name, at, wanted, "actions", expected, taken)


def _fits(expected: Any, action: Mapping[str, str]) -> bool:
    """A text is the target's ``to``; of a mapping each field counts."""
    if isinstance(expected, dict):
        return all(action.get(str(name)) == str(value) for name, value in expected.items())
    return action.get("to") == str(expected)


def _series(test: Mapping[str, Any], path: str, interval: float) -> MemorySeries:
    series = MemorySeries()
    count = 0
    for number, tree in _listed(test, "input_series", path):
        where = f"{path}.input_series[{number}]"
        labels = parse_series(str(tree.get("series", "")).encode())
        if labels is None:
            raise FixtureError(
                f'{where}.series: {tree.get("series")!r} is not a series such as used{{pod="a"}}'
            )
        times, values = [], []
        for position, value in enumerate(expanded(str(tree.get("values", "")), f"{where}.values")):
            count += 1
            if count > MOST_SAMPLES:
                raise FixtureError(f"{path}: more than {MOST_SAMPLES} samples")
            if value is not None:
                times.append(round(position * interval * 1000))
                values.append(value)
        series.add(labels, times, values)
    return series


def expanded(text: str, path: str = "values") -> Iterator[float | None]:
    """promtool's notation: ``1 2``, ``0+10x60``, ``5x3``, ``_``, ``_x4``, ``stale``; None is no sample."""
    for word in text.split():
        if word == "stale":
            yield STALE
        elif silence := _SILENCE.fullmatch(word):
            yield from [None] * int(silence[1] or 1)
        elif ramp := _RAMP.fullmatch(word):
            first, step = float(ramp[1]), float(ramp[3] or 0) * (-1 if ramp[2] == "-" else 1)
            for number in range(int(ramp[4]) + 1):
                yield first + number * step
        else:
            try:
                yield float(word)
            except ValueError:
                raise FixtureError(
                    f"{path}: {word!r} is not a value such as 5, 0+10x60, _x4 or stale"
                ) from None


def _object(tree: Any, path: str) -> Object:
    """A claim may leave out what every bound claim has."""
    if not isinstance(tree, dict):
        raise FixtureError(f"{path}: must be a mapping")
    kind = tree.get("kind", "PersistentVolumeClaim")
    meta = {"namespace": "default", "uid": path, **(tree.get("metadata") or {})}
    if kind in ("Namespace", "Node"):
        meta.pop("namespace")
    whole: dict[str, Any] = {"apiVersion": "v1", **tree, "kind": kind, "metadata": meta}
    if not meta.get("name"):
        raise FixtureError(f"{path}.metadata.name: is missing")
    if kind == "PersistentVolumeClaim":
        spec = {"volumeName": f"pvc-{meta['namespace']}-{meta['name']}", **(tree.get("spec") or {})}
        size = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
        if not size:
            raise FixtureError(f"{path}.spec.resources.requests.storage: is missing")
        status = {"phase": "Bound", "capacity": {"storage": size}, **(tree.get("status") or {})}
        whole |= {"spec": spec, "status": status}
    try:
        return Object.of(whole)
    except (msgspec.MsgspecError, LookupError, ValueError) as problem:
        raise FixtureError(f"{path}: {problem}") from None


def _listed(test: Mapping[str, Any], field: str, path: str) -> list[tuple[int, dict[str, Any]]]:
    found = test.get(field) or []
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise FixtureError(f"{path}.{field}: must be a list of mappings")
    return list(enumerate(found))


def _seconds(value: Any, path: str) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    found = _DURATION.fullmatch(str(value))
    if found is None or not str(value):
        raise FixtureError(f"{path}: {value!r} is not a duration such as 90s, 5m or 1h30m")
    days, hours, minutes, seconds = (int(each or 0) for each in found.groups())
    return float(((days * 24 + hours) * 60 + minutes) * 60 + seconds)
