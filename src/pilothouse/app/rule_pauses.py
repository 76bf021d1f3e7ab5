"""The composition of ``pilothouse rule pause`` and ``resume``."""

from __future__ import annotations

import random

from pilothouse.api.kind_names import AutopilotRule, ConfigMap, KindName, Namespace
from pilothouse.api.objects import Tree
from pilothouse.api.openstorage.pauses import PAUSE_ALL, PAUSED
from pilothouse.base.clock import SystemClock
from pilothouse.client.access import Access
from pilothouse.client.api import Api
from pilothouse.client.http_transport import HttpTransport

_AGENT = "pilothouse-rule"


async def set_pause(access: Access, *, rule: str, namespace: str, paused: bool) -> str:
    """Pause or resume a rule, a namespace or, if neither is given, all rules. Returns what it was done to.

    Raises ``StatusError``, ``TransportError``.
    """
    async with HttpTransport.open(access, SystemClock(), agent=_AGENT) as transport:
        api = Api(transport, random.Random(), manager=_AGENT, wait_for_server=False)
        if rule:
            await _annotate(api, AutopilotRule, rule, paused)
            return f"rule {rule}"
        if namespace:
            await _annotate(api, Namespace, namespace, paused)
            return f"namespace {namespace}"
        await _set_all(api, paused)
        return "all rules"


async def _annotate(api: Api, noun: KindName, name: str, paused: bool) -> None:
    mark = {PAUSED: "true" if paused else None}
    await api.patch(noun, name, "", {"metadata": {"annotations": mark}})


async def _set_all(api: Api, paused: bool) -> None:
    namespace, name = PAUSE_ALL
    if await api.find(ConfigMap, name, namespace) is None:
        if not paused:
            return
        tree: Tree = {
            "apiVersion": ConfigMap.api_version,
            "kind": ConfigMap.kind,
            "metadata": {"namespace": namespace, "name": name},
            "data": {"paused": "true"},
        }
        await api.create(ConfigMap, tree)
    else:
        await api.patch(ConfigMap, name, namespace, {"data": {"paused": "true" if paused else None}})
