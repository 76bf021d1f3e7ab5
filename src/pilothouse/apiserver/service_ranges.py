"""Where services get their addresses and node ports from, unless told otherwise."""

from __future__ import annotations

from ipaddress import IPv4Network
from typing import Final

SERVICE_RANGE: Final = IPv4Network("127.96.0.0/16")
"""Loopback, as pods on one machine have it: each address in it answers without being configured."""
NODE_PORTS: Final = range(30000, 32768)
