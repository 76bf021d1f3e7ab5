"""How long a backtest takes: a rule over a week of a hundred volumes.

    python -m bench.rules.backtests [--days 7] [--volumes 100] [--poll 60]

Each volume has three series with a sample a minute, and fills; the rule is asked as often as it polls. Seconds of one core, of the run
alone and with the reading of the recording before it.
"""

from __future__ import annotations

import argparse
import os
import time

import msgspec

from pilothouse.api.openstorage.v1alpha1 import AutopilotRuleSpec
from pilothouse.rules.backtest import backtest, queries_of
from pilothouse.rules.object_records import RuleTerms
from pilothouse.rules.recorded_series import recorded_series
from pilothouse.rules.series_store import WantedSeries

MOST_SECONDS = 20.0
_START = 1_700_000_000
_GIB = 2**30


def rule(poll: int) -> RuleTerms:
    spec = {
        "pollInterval": poll,
        "conditions": {
            "expressions": [{"keyAlias": "VolumeUsagePercent", "operator": "Gt", "values": ["80"]}]
        },
        "actions": [{"name": "openstorage.io.action.volume/resize", "params": {"scalepercentage": "50"}}],
    }
    return RuleTerms("grow", 1, msgspec.convert(spec, AutopilotRuleSpec))


def recording(days: int, volumes: int) -> bytes:
    """Answers of ``query_range``: volumes of 10 GiB, each of which fills at a pace of its own."""
    times = range(_START, _START + days * 86400, 60)
    results = []
    for number in range(volumes):
        labels = {"namespace": "db", "persistentvolumeclaim": f"data-{number}"}
        a_day = (1 + number % 5) * _GIB
        used = [2 * _GIB + a_day * (time - _START) // 86400 for time in times]
        for name, values in (
            ("used", used),
            ("capacity", [10 * _GIB] * len(used)),
            ("available", [10 * _GIB - each for each in used]),
        ):
            metric = {"__name__": f"kubelet_volume_stats_{name}_bytes", **labels}
            pairs = [[time, str(value)] for time, value in zip(times, values, strict=True)]
            results.append({"metric": metric, "values": pairs})
    data = {"resultType": "matrix", "result": results}
    return msgspec.json.encode({"status": "success", "data": data})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--days", type=int, default=7)
    parser.add_argument("--volumes", type=int, default=100)
    parser.add_argument("--poll", type=int, default=60)
    chosen = parser.parse_args()
    content, terms = recording(chosen.days, chosen.volumes), rule(chosen.poll)
    began = time.process_time()
    series = recorded_series(content, WantedSeries(queries_of([terms])))
    read = time.process_time()
    found = backtest([terms], series)
    done = time.process_time()
    print(f"{chosen.days} days, {chosen.volumes} volumes, {len(content) / 2**20:.0f} MiB of JSON, "
          f"load {os.getloadavg()[0]:.1f}")  # fmt: skip
    print(f"{len(found.actions)} actions: {done - read:.1f} s CPU, with reading {done - began:.1f} s, "
          f"wanted <= {MOST_SECONDS:g} s")  # fmt: skip


if __name__ == "__main__":
    main()
