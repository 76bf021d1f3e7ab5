"""Pauses: while one applies, no rule writes anything for an object.

    pilothouse rule pause grow-postgres          # the annotation, on the rule
    pilothouse rule pause -n shop                # on the namespace
    pilothouse rule pause --all                  # the ConfigMap kube-system/autopilot

The annotation is on the rule, on the namespace or on the object; any of them is enough.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

PAUSED: Final = "autopilot.libopenstorage.org/paused"
"""The annotation. ``true`` pauses, and so does any other text, as the reason; empty or ``false`` does not."""
PAUSE_ALL: Final = ("kube-system", "autopilot")
"""Namespace and name of the ConfigMap whose ``data.paused`` pauses every rule."""
_NO: Final = ("", "false")


def is_paused(annotations: Mapping[str, str] | None) -> bool:
    """Whether the annotations of a rule, a namespace or an object pause rules there."""
    return (annotations or {}).get(PAUSED, "").lower() not in _NO


def pauses_all(data: Mapping[str, Any] | None) -> bool:
    """Whether the data of the ConfigMap ``PAUSE_ALL`` pause every rule."""
    return str((data or {}).get("paused", "")).lower() not in _NO
