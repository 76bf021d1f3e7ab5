"""The answer to ``pilothouse why``: a server asked, and what it knows told."""

from __future__ import annotations

import random

import msgspec

from pilothouse.app.controller_list import all_controllers
from pilothouse.app.controller_manager import LEASE
from pilothouse.base.clock import SystemClock
from pilothouse.base.terminal_text import escape_control_characters
from pilothouse.client.access import Access
from pilothouse.client.api import Api
from pilothouse.client.discovery import discover
from pilothouse.client.http_transport import HttpTransport
from pilothouse.diagnosis.explanation import explained
from pilothouse.diagnosis.findings import Findings, find_out


async def why(
    access: Access, kind: str, name: str, namespace: str, lease: tuple[str, str] = LEASE
) -> Findings:
    """What is known of an object. Raises ``NoSuchKind``, ``StatusError``, ``TransportError``."""
    async with HttpTransport.open(access, SystemClock(), agent="pilothouse-why") as transport:
        api = Api(transport, random.Random(), manager="pilothouse-why")
        noun = (await discover(api)).called(kind)
        controllers = all_controllers(access.authority.decode())
        return await find_out(api, noun, name, namespace or access.namespace, controllers, lease)


def in_words(findings: Findings, *, verbose: bool = False) -> str:
    return "\n".join(
        map(escape_control_characters, explained(findings, now=SystemClock().now(), verbose=verbose))
    )


def as_json(findings: Findings) -> str:
    return msgspec.json.format(msgspec.json.encode(findings)).decode()
