"""A process that writes its number into a config map for as long as it leads: `candidate.py KUBECONFIG NAMESPACE`.

It says `leading N` and `lost` on its output. What it writes is `<transitions>`; a write that is refused is said as `refused`.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from random import Random

from pilothouse.api.kind_names import ConfigMap
from pilothouse.base.clock import SystemClock
from pilothouse.client.api import Api
from pilothouse.client.http_transport import HttpTransport
from pilothouse.client.kubeconfig import load
from pilothouse.client.leader_election import LeaseTiming
from pilothouse.client.leader_lease import Leadership, unique_identity
from pilothouse.client.transport import TransportError
from pilothouse.meta.errors import StatusError

TIMING = LeaseTiming(lease=3, renew=2, retry=0.3)


def say(text: str) -> None:
    print(text, flush=True)


async def main(kubeconfig: str, namespace: str) -> None:
    clock, rng = SystemClock(), Random()
    async with HttpTransport.open(load(Path(kubeconfig)), clock, agent="candidate") as transport:
        api = Api(transport, rng, manager="candidate")
        leadership = Leadership(api, namespace, "leader", unique_identity(), clock, rng, TIMING)
        leadership.subscribe(lambda fence: say(f"leading {fence.transitions}"), lambda: say("lost"))
        async with asyncio.TaskGroup() as group:
            group.create_task(leadership.run())
            while True:
                if (fence := leadership.fence) is not None:
                    data = {"data": {"term": str(fence.transitions)}}
                    try:
                        await api.patch(ConfigMap, "work", namespace, data, fence=fence, deadline=5)
                    except StatusError as refusal:
                        say(f"refused {refusal.reason}")
                    except TransportError as problem:
                        say(f"failed {problem}")
                await asyncio.sleep(0.02)


asyncio.run(main(*sys.argv[1:]))
