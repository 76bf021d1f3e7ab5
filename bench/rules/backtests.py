"""How long a backtest takes: ``python -m bench.rules.backtests [--days 7] [--volumes 100] [--step 60]``.

Volumes that fill by a tenth to three tenths of their size a day, a sample of each series a minute, and a rule that grows them.
Seconds by the clock and of the processor, and how many times faster than real time that is.
"""

from __future__ import annotations

import argparse
import os
import time

import msgspec
import numpy as np

from pilothouse.api.openstorage.actions import RESIZE
from pilothouse.api.openstorage.v1alpha1 import AutopilotRuleSpec
from pilothouse.rules.backtest import DAY, backtest
from pilothouse.rules.object_records import RuleTerms
from pilothouse.rules.promql.label_sets import NAME
from pilothouse.rules.promql.memory_series import MemorySeries

_GIB = 1 << 30
_START = 1_700_000_000
_SIZE = 10.0 * _GIB


def recording(days: float, volumes: int, step: int) -> MemorySeries:
    series, times = MemorySeries(), np.arange(0, days * DAY, step)
    for number in range(volumes):
        labels = {"namespace": "db", "persistentvolumeclaim": f"data-{number}"}
        used = _SIZE * (0.3 + (0.1 + 0.2 * number / volumes) * times / DAY)
        for name, values in (
            ("used", used),
            ("available", _SIZE - used),
            ("capacity", np.full_like(used, _SIZE)),
        ):
            full = {NAME: f"kubelet_volume_stats_{name}_bytes", **labels}
            series.add(full, ((_START + each) * 1000 for each in times.tolist()), values)
    return series


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--days", type=float, default=7)
    parser.add_argument("--volumes", type=int, default=100)
    parser.add_argument("--step", type=int, default=60)
    chosen = parser.parse_args()
    series = recording(chosen.days, chosen.volumes, chosen.step)
    condition = {"keyAlias": "VolumeUsagePercent", "operator": "Gt", "values": ["80"]}
    spec = {"conditions": {"expressions": [condition]}, "actions": [{"name": RESIZE, "params": {}}]}
    rule = RuleTerms("grow", 1, msgspec.convert(spec, AutopilotRuleSpec))
    began, worked = time.monotonic(), time.process_time()
    found = backtest([rule], series)
    took, worked = time.monotonic() - began, time.process_time() - worked
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    print(
        f"{chosen.days:g} days of {chosen.volumes} volumes, a poll each {rule.spec.poll_interval} s: {took:.1f} s, "
        f"{worked:.1f} CPU s, {chosen.days * DAY / took:,.0f} times real time, {len(found.actions)} actions"
    )


if __name__ == "__main__":
    main()
