"""An update agent that kills itself with SIGKILL at a phase of its journal.

    python -m tests.node.updating.dying_update_agent --kubeconfig K --data D --profile P --at "after Swapping"

``before`` a phase: the journal does not have it yet. ``after``: the journal has it, and nothing of it is done. Without ``--at`` it is an
agent like any other.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import sys
from pathlib import Path
from typing import Any

import msgspec
from tests.node.updating.machine import NAME, QUICK

from pilothouse.base.clock import SystemClock
from pilothouse.client.api import Api
from pilothouse.client.http_transport import HttpTransport
from pilothouse.client.kubeconfig import load
from pilothouse.node.updating.update_agent import UpdateAgent, UpdateAgentSettings
from pilothouse.node.updating.update_profile import UpdateProfile, read_profile
from pilothouse.updates.downloads import Downloads


def die_at(point: str, order: Path | None = None) -> None:
    """Follow what is done to files; a journal is put in its place by a rename. With the file that ordered it, which goes first, only one
    process dies."""
    when, _, phase = point.partition(" ")
    written = dying = False

    def die() -> None:
        nonlocal dying
        dying = True  # A kill is heard of, too.
        if order is not None:
            order.unlink()
        os.kill(os.getpid(), signal.SIGKILL)

    def hear(event: str, args: tuple[Any, ...]) -> None:
        nonlocal written
        if dying:
            return
        if written:
            die()
        if event != "os.rename" or not str(args[1]).endswith("program.json"):
            return
        if msgspec.json.decode(Path(args[0]).read_bytes())["turn"].get("phase", "Accepted") == phase:
            if when == "before":
                die()
            # The folder is synced next, which is the first that can be heard of after the rename.
            written = True

    sys.addaudithook(hear)


async def run(kubeconfig: Path, data: Path, profile: UpdateProfile) -> None:
    clock = SystemClock()
    settings = UpdateAgentSettings(name=NAME, data=data, library=data / "images", profile=profile)
    async with HttpTransport.open(load(kubeconfig), clock, agent="dying-update-agent") as transport:
        api = Api(transport, random.Random(), manager="pilothouse-node")
        await UpdateAgent(api, settings, Downloads(QUICK, clock), clock, random.Random()).run()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.node.updating.dying_update_agent")
    parser.add_argument("--kubeconfig", type=Path, required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--profile", type=Path, required=True)
    parser.add_argument("--at", default="")
    given = parser.parse_args()
    if given.at:
        die_at(given.at)
    asyncio.run(run(given.kubeconfig, given.data, read_profile(json.loads(given.profile.read_text()))))


if __name__ == "__main__":
    main()
