"""The kind that both operators look after, and objects of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any, Final

from pilothouse.api.kind_names import CustomResourceDefinition, KindName
from pilothouse.base.clock import SystemClock
from pilothouse.client.api import Api
from pilothouse.client.http_transport import HttpTransport
from pilothouse.client.informer import Informer
from pilothouse.client.kubeconfig import load

GROUP, VERSION, PLURAL = "bench.pilothouse.io", "v1", "widgets"
WIDGET: Final = KindName(GROUP, VERSION, "Widget", PLURAL)
_FREE = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_DEFINITION: dict[str, Any] = {
    "metadata": {"name": f"{PLURAL}.{GROUP}"},
    "spec": {
        "group": GROUP,
        "names": {"kind": "Widget", "plural": PLURAL, "singular": "widget"},
        "scope": "Namespaced",
        "versions": [
            {
                "name": VERSION,
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {"type": "object", "properties": {"spec": _FREE, "status": _FREE}}
                },
            }
        ],
    },
}
_AT_ONCE = 32


def is_settled(status: Any, spec: Any) -> bool:
    """Whether an operator has done its part."""
    return (status or {}).get("seen") == (spec or {}).get("value")


async def define(api: Api) -> None:
    """Have the kind served."""
    await api.apply(CustomResourceDefinition, _DEFINITION, force=True)
    while True:
        found = await api.get(CustomResourceDefinition, f"{PLURAL}.{GROUP}")
        if found.is_true("Established"):
            return
        await asyncio.sleep(0.1)


async def give(api: Api, count: int, value: int) -> None:
    """So many of them, with a value that their status is to show; those that are there get the value."""
    numbers = iter(range(count))

    async def work() -> None:
        for number in numbers:
            tree = {
                "metadata": {"name": f"w-{number}", "namespace": "default"},
                "spec": {"value": value, "text": "x" * 200},
            }
            await api.apply(WIDGET, tree, force=True)

    await asyncio.gather(*(work() for _ in range(_AT_ONCE)))


class Watching:
    """When each status came to show its value."""

    def __init__(self, kubeconfig: Any) -> None:
        self._kubeconfig = kubeconfig

    async def rate(self, count: int, begun: Callable[[], None]) -> float:
        """Statuses a second, from the first, when ``begun`` is called, to the last of ``count``."""
        loop = asyncio.get_running_loop()
        moments: dict[str, float] = {}
        everything = asyncio.Event()
        access = load(self._kubeconfig)
        async with HttpTransport.open(access, SystemClock(), agent="bench") as transport:
            api = Api(transport, Random(1), manager="bench")
            informer = Informer(api, WIDGET, Random(1), SystemClock())

            def changed(difference: Any) -> None:
                new = difference.new
                if new is not None and new.name not in moments and is_settled(new.status, new.spec):
                    if not moments:
                        begun()
                    moments[new.name] = loop.time()
                    if len(moments) == count:
                        everything.set()

            informer.subscribe(changed)
            following = asyncio.create_task(informer.run())
            try:
                await asyncio.wait_for(everything.wait(), 600)
            finally:
                following.cancel()
                await asyncio.gather(following, return_exceptions=True)
        return (count - 1) / (max(moments.values()) - min(moments.values()))
