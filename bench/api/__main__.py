"""`python -m bench.api`: measures, and prints the table."""

from __future__ import annotations

import argparse
import json
import resource
import signal
import sys
import tempfile
from dataclasses import asdict
from itertools import chain
from pathlib import Path

from tests.kit.tools import MissingTool

from bench.api import table
from bench.api.instances import instances
from bench.api.objects import KINDS
from bench.api.plan import NAMES, measures
from bench.api.rounds import Row, take
from bench.api.stage import Stage
from bench.api.wrk import LoadFailed, Wrk


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.api", description="The API server, measured.")
    parser.add_argument("--rounds", type=int, default=5, help="turns of each contender (5)")
    parser.add_argument("--seconds", type=int, default=2, help="length of a turn under load (2)")
    parser.add_argument("--quick", action="store_true", help="two rounds of one second")
    parser.add_argument(
        "--only", action="append", choices=sorted(NAMES), help="measure only this; again for more"
    )
    parser.add_argument(
        "--instances",
        type=numbers,
        help="measure so many servers on one etcd, such as 1,2,3, and nothing else unless --only says so",
    )
    parser.add_argument("--kind", choices=sorted(KINDS), default="configmaps", help="kind of the objects")
    parser.add_argument("--json", type=Path, help="also write the rows to this file")
    return parser.parse_args()


def numbers(text: str) -> list[int]:
    found = [int(each) for each in text.split(",")]
    if not found or min(found) < 1 or len(set(found)) < len(found):
        raise ValueError(text)
    return found


def main() -> int:
    chosen = options()
    rounds, seconds = (2, 1) if chosen.quick else (chosen.rounds, chosen.seconds)
    # A thousand watchers and their server need more files than a login shell allows.
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    # Ended from outside, the servers are ended too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    rows: list[Row] = []
    try:
        with tempfile.TemporaryDirectory(prefix="pilothouse-bench-") as name:
            folder = Path(name)
            with Stage(folder, KINDS[chosen.kind]) as stage:
                only = frozenset(chosen.only or (() if chosen.instances else NAMES))
                wrk = Wrk(folder)
                several = instances(stage, wrk, seconds, chosen.instances) if chosen.instances else ()
                for measure in chain(measures(stage, wrk, seconds=seconds, only=only), several):
                    print(f"measuring: {measure.title}", file=sys.stderr, flush=True)
                    rows += take(measure, rounds=rounds).rows()
    except (LoadFailed, MissingTool) as failure:
        print(f"bench.api: {failure}", file=sys.stderr)
        return 1
    print("\n".join(table.lines(rows)))
    if chosen.json:
        chosen.json.write_text(json.dumps([asdict(row) for row in rows], indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
