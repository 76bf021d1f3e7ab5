"""The same operator with kopf and its defaults: `kopf run --standalone -A kopf_operator.py`.

By default kopf posts events about what it handled; ours writes a record of each decision.
"""

from __future__ import annotations

from typing import Any

import kopf


@kopf.on.create("bench.pilothouse.io", "v1", "widgets")
@kopf.on.update("bench.pilothouse.io", "v1", "widgets")
def widgets(spec: kopf.Spec, patch: kopf.Patch, **_: Any) -> None:
    patch.status["seen"] = spec.get("value")
