"""The order of a shim: structs of `launch_spec`, which the agent marshals as dictionaries, as plain objects.

Their types are for the type checker alone: msgspec is more than a shim may have in memory.
"""

from __future__ import annotations

import marshal
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

Fields: Any = type(sys.implementation)
"""`types.SimpleNamespace`, without an import."""


def load_order(content: bytes) -> Any:
    """An object with the fields of a struct, in which `env` is still a dictionary."""
    return _loaded(marshal.loads(content))


def _loaded(value: Any) -> Any:
    if isinstance(value, dict):
        return Fields(**{name: each if name == "env" else _loaded(each) for name, each in value.items()})
    return tuple(map(_loaded, value)) if isinstance(value, list | tuple) else value
