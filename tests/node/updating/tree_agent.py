"""An update agent that is part of a tree, and restarts itself through the launcher of its root.

    python -m tests.node.updating.tree_agent --tree T --version V --kubeconfig K --data D --profile P

``agent_program`` is the program of such a tree. Its starts are in ROOT/starts, one a line. If there is a file DATA/dies-at, the agent
kills itself at that point, once: see ``dying_update_agent``.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import sys
from pathlib import Path
from typing import Literal

from tests.node.updating.dying_update_agent import die_at
from tests.node.updating.machine import NAME, QUICK

from pilothouse.base.clock import SystemClock
from pilothouse.client.api import Api
from pilothouse.client.http_transport import HttpTransport
from pilothouse.client.kubeconfig import load
from pilothouse.node.updating.own_program import OwnInstallation
from pilothouse.node.updating.update_agent import UpdateAgent, UpdateAgentSettings
from pilothouse.node.updating.update_profile import read_profile
from pilothouse.updates.downloads import Downloads

DIES_AT = "dies-at"
Behaviour = Literal["works", "crashes", "syntax error"]

_TEXT = """#!{python} -SE
import os, sys
tree = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
root = os.path.dirname(os.path.dirname(tree))
with open(os.path.join(root, "starts"), "a") as starts:
    print({version!r}, file=starts)
{act}
"""
_ACTS = {
    "works": (
        "os.execv({python!r}, [{python!r}, '-m', 'tests.node.updating.tree_agent', '--tree', tree,"
        " '--version', {reported!r}, *sys.argv[2:]])"
    ),
    "crashes": "sys.exit(3)",
}


def agent_program(version: str, *, behaviour: Behaviour = "works", reports: str = "") -> str:
    if behaviour == "syntax error":
        return f"#!{sys.executable} -SE\n# {version}\ndef (:\n"
    act = _ACTS[behaviour].format(python=sys.executable, reported=reports or version)
    return _TEXT.format(python=sys.executable, version=version, act=act)


async def run(given: argparse.Namespace) -> None:
    clock = SystemClock()
    profile = read_profile(json.loads(given.profile.read_text()))
    settings = UpdateAgentSettings(name=NAME, data=given.data, library=given.data / "images", profile=profile)
    restarting = asyncio.Event()
    async with HttpTransport.open(load(given.kubeconfig), clock, agent="tree-agent") as transport:
        api = Api(transport, random.Random(), manager="pilothouse-node")
        own = OwnInstallation(given.tree, given.version, restarting.set)
        agent = UpdateAgent(api, settings, Downloads(QUICK, clock), clock, random.Random(), own)
        running = asyncio.create_task(agent.run())
        restart = asyncio.create_task(restarting.wait())
        await asyncio.wait({running, restart}, return_when=asyncio.FIRST_COMPLETED)
        if not restarting.is_set():
            await running
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.node.updating.tree_agent")
    for flag in ("--tree", "--kubeconfig", "--data", "--profile"):
        parser.add_argument(flag, type=Path, required=True)
    parser.add_argument("--version", required=True)
    given = parser.parse_args()
    order = given.data / DIES_AT
    if order.exists():
        die_at(order.read_text(), order)
    asyncio.run(run(given))
    launcher = str(given.tree.parents[1] / "bin" / "pilothouse")
    passed = ["--kubeconfig", given.kubeconfig, "--data", given.data, "--profile", given.profile]
    os.execv(launcher, [launcher, "node", *map(str, passed)])


if __name__ == "__main__":
    main()
