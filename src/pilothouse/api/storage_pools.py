"""Labels of StoragePools, and whose they are by name. Nodes write them, the API server and rules check them.

pool_owner("m1-fast", {"m1", "m2"}.__contains__)         # "m1"
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

POOL_TIER: Final = "pilothouse.io/tier"
"""The label of a StoragePool with its tier."""
POOL_NODE: Final = "pilothouse.io/node"
"""The label of a StoragePool with its node."""


def pool_owner(pool: str, is_node: Callable[[str], bool]) -> str:
    """The node that a StoragePool belongs to by its name, ``<node>-<tier>``; empty if there is none.

    Of several nodes whose names fit, as m1 and m1-fast for m1-fast-default, it is the one with the longest.
    """
    end = pool.rfind("-")
    while end > 0:
        if is_node(pool[:end]):
            return pool[:end]
        end = pool.rfind("-", 0, end)
    return ""
