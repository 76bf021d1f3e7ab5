"""The composition of ``pilothouse why``: a connection, the list of controllers, and ``diagnosis``."""

from __future__ import annotations

import random

from pilothouse.app.controller_list import all_controllers
from pilothouse.app.controller_manager import LEASE
from pilothouse.base.clock import SystemClock
from pilothouse.client.access import Access
from pilothouse.client.api import Api
from pilothouse.client.discovery import discover
from pilothouse.client.http_transport import HttpTransport
from pilothouse.diagnosis.collector import collect
from pilothouse.diagnosis.explanation import as_text
from pilothouse.diagnosis.findings import Findings


async def diagnose(access: Access, kind: str, name: str, namespace: str) -> Findings:
    """Read about an object. Raises ``NoSuchKind``, ``StatusError``, ``TransportError``."""
    async with HttpTransport.open(access, SystemClock(), agent="pilothouse-why") as transport:
        api = Api(transport, random.Random(), manager="pilothouse-why", wait_for_server=False)
        noun = (await discover(api)).called(kind)
        controllers = all_controllers(access.authority.decode())
        return await collect(api, noun, name, namespace or access.namespace, controllers, LEASE)


def explain(findings: Findings, *, verbose: bool = False) -> str:
    """The findings as text, with ages up to this moment."""
    return as_text(findings, now=SystemClock().now(), verbose=verbose)
