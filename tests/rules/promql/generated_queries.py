"""Random series, and random queries of the subset over them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from random import Random

from pilothouse.rules.promql.memory_series import MemorySeries

BASE = 1_700_000_000_000
"""The first sample, in milliseconds."""
HOURS = 2
NOW = BASE / 1000 + 5400
_GAUGES = ("used", "cap", "free")
_COUNTERS = ("req_total", "err_total")

Series = tuple[Mapping[str, str], list[int], list[float]]


def generated_series(rng: Random) -> Iterator[Series]:
    for namespace in ("db", "web"):
        for number in range(4):
            claim = {"namespace": namespace, "pvc": f"data-{number}"}
            for name in _GAUGES:
                if name == "free" and number == 3:
                    continue
                times = list(_times(rng))
                level = rng.uniform(-5, 100)
                values = [level := level + rng.uniform(-3, 4) for _ in times]
                if rng.random() < 0.15:
                    values[rng.randrange(len(values))] = math.nan
                if name == "cap":
                    values = [float(rng.choice((100, 200)))] * len(times)
                yield {"__name__": name, **claim}, times, values
            tier = {"__name__": "claim_info", **claim, "tier": rng.choice(("gold", "tin"))}
            times = list(_times(rng))
            yield tier, times, [1.0] * len(times)
            for code in ("200", "500"):
                for name in _COUNTERS:
                    times = list(_times(rng))
                    labels = {"__name__": name, "namespace": namespace, "pod": f"p-{number}", "code": code}
                    yield labels, times, list(_counter(rng, len(times)))
        counts = [0.0, 0.0, 0.0, 0.0]
        times = list(_times(rng))
        columns: list[list[float]] = [[], [], [], []]
        for _ in times:
            for bucket in range(4):
                counts[bucket] += rng.randrange(5)
                columns[bucket].append(sum(counts[: bucket + 1]))
        for bound, column in zip(("0.1", "0.5", "2", "+Inf"), columns, strict=True):
            yield {"__name__": "took_bucket", "namespace": namespace, "le": bound}, times, column


def _times(rng: Random) -> Iterator[int]:
    """Every 15 or 60 seconds, sometimes late, sometimes not at all for a while."""
    step = rng.choice((15_000, 60_000))
    jitter = rng.choice((0, 0, 2_000))
    gap = rng.randrange(0, HOURS * 3600_000) if rng.random() < 0.4 else -1
    end = rng.choice(
        (HOURS * 3600_000, HOURS * 3600_000, 5_400_000 - rng.randrange(200_000, 400_000, 15_000))
    )
    for time in range(0, end, step):
        if not gap <= time < gap + 900_000 or gap < 0:
            yield BASE + time + (rng.randrange(jitter) if jitter else 0)


def _counter(rng: Random, count: int) -> Iterator[float]:
    value = float(rng.randrange(50))
    for _ in range(count):
        value = float(rng.randrange(3)) if rng.random() < 0.02 else value + rng.randrange(6)
        yield value


def memory_series(series: list[Series]) -> MemorySeries:
    found = MemorySeries()
    for labels, times, values in series:
        found.add(labels, times, values)
    return found


def openmetrics(series: list[Series]) -> str:
    """The series in the text that promtool takes."""
    lines = []
    for name in dict.fromkeys(labels["__name__"] for labels, _, _ in series):
        lines.append(f"# TYPE {name} unknown")
        for labels, times, values in series:
            if labels["__name__"] == name:
                pairs = ",".join(f'{key}="{text}"' for key, text in labels.items() if key != "__name__")
                lines += [
                    f"{name}{{{pairs}}} {'NaN' if math.isnan(value) else repr(value)} {time / 1000:.3f}"
                    for time, value in zip(times, values, strict=True)
                ]
    return "\n".join([*lines, "# EOF", ""])


class QueryWriter:
    """Writes one query after the other."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng

    def query(self) -> str:
        return self._vector(3)

    def _vector(self, depth: int) -> str:
        rng = self._rng
        if depth == 0 or rng.random() < 0.1:
            return self._selector()
        return rng.choice(
            (
                self._ranged, self._ranged, self._ranged, self._arithmetic, self._arithmetic, self._scaled,
                self._scaled, self._compared, self._aggregated, self._aggregated, self._function,
                self._set, self._grouped, self._histogram, self._odd,
            )
        )(depth - 1)  # fmt: skip

    def _selector(self, *, offset: bool = True) -> str:
        name = self._rng.choice((*_GAUGES, *_COUNTERS, "claim_info", "took_bucket", "nothing"))
        return self._named(name) + (self._offset() if offset else "")

    def _named(self, name: str) -> str:
        return name + self._rng.choice(
            ("", "", "", '{namespace="db"}', '{namespace!="db"}', '{pvc=~"data-[12]"}', '{pvc!~"data-1|x"}',
             '{code="500"}', '{code=""}', '{namespace=~"d.*",pod=~".+"}', '{missing=~".*"}')
        )  # fmt: skip

    def _offset(self) -> str:
        return self._rng.choice(("", "", "", " offset 10m", " offset 17s", " offset -5m"))

    def _number(self) -> str:
        return self._rng.choice(("0", "1", "2.5", "-3", "50", "100", "0.001", "time()", "scalar(sum(cap))"))

    def _ranged(self, depth: int) -> str:
        rng = self._rng
        span = rng.choice(("1m", "5m", "10m", "1h", "47s", "2m30s"))
        counter = self._named(rng.choice(_COUNTERS))
        any_one = self._named(rng.choice((*_GAUGES, *_COUNTERS)))
        if rng.random() < 0.4:
            return f"{rng.choice(('rate', 'increase', 'irate'))}({counter}[{span}]{self._offset()})"
        if rng.random() < 0.1:
            return f"quantile_over_time({rng.choice(('0.5', '0.9', '0', '1', '2'))}, {any_one}[{span}])"
        if rng.random() < 0.15:
            ahead = rng.choice(("3600", "60", "0"))
            return f"predict_linear({any_one}[{span}]{self._offset()}, {ahead})"
        function = rng.choice(
            ("delta", "idelta", "deriv", "changes", "resets", "sum_over_time", "count_over_time",
             "avg_over_time", "min_over_time", "max_over_time", "last_over_time", "present_over_time",
             "stddev_over_time", "stdvar_over_time")
        )  # fmt: skip
        return f"{function}({any_one}[{span}]{self._offset()})"

    def _scaled(self, depth: int) -> str:
        operator = self._rng.choice("+-*/+-*/%^")
        # The last bits of a computed value differ, which these would show.
        left = self._selector() if operator in "%^" else self._vector(depth)
        right = self._number()
        if self._rng.random() < 0.4:
            left, right = right, f"({left})"
        return f"({left} {operator} {right})"

    def _arithmetic(self, depth: int) -> str:
        rng = self._rng
        matching = rng.choice(("", "", " on (namespace, pvc)", " ignoring (code, pod)", " on (namespace)"))
        left, right = self._named(rng.choice(_GAUGES)), self._named(rng.choice(_GAUGES))
        if rng.random() < 0.3:
            left = self._vector(depth)
        return f"({left} {rng.choice('+-*/')}{matching} {right})"

    def _compared(self, depth: int) -> str:
        rng = self._rng
        operator = rng.choice((">", "<", ">=", "<=", "!="))
        flag = rng.choice(("", "", " bool"))
        if rng.random() < 0.4:
            left, right = self._named(rng.choice(_GAUGES)), self._named(rng.choice(_GAUGES))
            return f"({left} {operator}{flag}{rng.choice(('', ' on (namespace, pvc)'))} {right})"
        if rng.random() < 0.3:
            return f"({self._number()} {operator}{flag} {self._selector()})"
        return f"({self._vector(depth)} {operator}{flag} {rng.choice(('1.5', '50', '0', '-1'))})"

    def _aggregated(self, depth: int) -> str:
        rng = self._rng
        by = rng.choice(
            ("", " by (namespace)", " by (pvc, namespace)", " without (code)", " without (pvc, pod)")
        )
        if rng.random() < 0.15:
            chosen = rng.choice(("topk", "bottomk"))
            return f"{chosen}{by} ({rng.choice('123')}, {self._named('used')})"
        if rng.random() < 0.1:
            return f"quantile{by} ({rng.choice(('0.5', '0.25', '1'))}, {self._vector(depth)})"
        operator = rng.choice(("sum", "avg", "min", "max", "count", "group", "stddev", "stdvar"))
        return f"{operator}{by} ({self._vector(depth)})"

    def _function(self, depth: int) -> str:
        rng = self._rng
        inner = self._vector(depth)
        return rng.choice(
            (
                f"abs({inner})", f"ceil({inner})", f"floor({inner})", f"sgn({inner})", f"sqrt({inner})",
                f"ln({inner})", f"log2({inner})", f"log10({inner})", f"exp({inner} / 1000)",
                f"clamp({inner}, 10, 60)", f"clamp({inner}, 10, 5)", f"clamp_min({inner}, 30)",
                f"clamp_max({inner}, {self._number()})", f"-({inner})", f"round({self._selector()}, 5)",
                f"timestamp({self._selector()})", f"timestamp({inner})", f"absent({inner})",
            )
        )  # fmt: skip

    def _set(self, depth: int) -> str:
        rng = self._rng
        matching = rng.choice(
            ("", "", " on (namespace)", " on (namespace, pvc)", " ignoring (code, tier, pvc)")
        )
        operator = rng.choice(("and", "or", "unless"))
        return f"({self._vector(depth)} {operator}{matching} {self._vector(depth)})"

    def _grouped(self, depth: int) -> str:
        rng = self._rng
        return rng.choice(
            (
                "used * on (namespace, pvc) group_left (tier) claim_info",
                "claim_info * on (namespace, pvc) group_right (tier) used",
                "used / on (namespace) group_left sum by (namespace) (cap)",
                "sum by (namespace) (cap) - on (namespace) group_right used",
                "used > on (namespace) group_left avg by (namespace) (used)",
                "rate(req_total[5m]) / ignoring (code) group_left sum without (code) (rate(req_total[5m]))",
                "used * on (namespace) group_left (tier) claim_info",
            )
        )

    def _histogram(self, depth: int) -> str:
        rng = self._rng
        q = rng.choice(("0.5", "0.9", "0.99", "0", "1", "-1", "2"))
        inner = rng.choice(("took_bucket", "rate(took_bucket[5m])", "sum by (le) (rate(took_bucket[10m]))"))
        return f"histogram_quantile({q}, {inner})"

    def _odd(self, depth: int) -> str:
        return self._rng.choice(
            (
                'absent(nothing{a="b",c=~"d",e="f"})', 'absent(nothing{a="b",a="c"})', "absent(used)",
                "absent_over_time(nothing{x='y'}[5m])", "absent_over_time(used[5m])", "vector(3) + time()",
                "vector(scalar(sum(used)))", "vector(scalar(used))", "absent(sum(nothing))",
                "100 * used / cap", "(used / cap > 0.5) and on (namespace, pvc) deriv(used[1h]) > 0",
                "used or vector(1)", "sum(used) / sum(cap)", "used == used", "cap == 100", "cap != 100",
            )
        )  # fmt: skip
