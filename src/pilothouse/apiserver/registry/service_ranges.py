"""The default ranges of service addresses, node ports and pod addresses."""

from __future__ import annotations

from ipaddress import IPv4Network
from typing import Final

SERVICE_RANGE: Final = IPv4Network("127.96.0.0/16")
"""Loopback, as pods on one machine have it: each address in it answers without being configured."""
CLUSTER_RANGE: Final = IPv4Network("10.44.0.0/16")
"""Ranges of nodes' pods lie in here."""
NODE_MASK_SIZE: Final = 24
"""Bits of the prefix of a node's range, at least: room for 256 nodes."""
NODE_PORTS: Final = range(30000, 32768)
