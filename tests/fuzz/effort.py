"""How hard hypothesis tries.

One server answers all examples of a module, so an example is not independent of those before it: nothing is gained by
shrinking or replaying one. Tests always try the same examples; a soak tries others each time.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, Phase, settings

_SHARED = settings(
    deadline=None,
    database=None,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=list(HealthCheck),
)
QUICK = settings(_SHARED, max_examples=15, derandomize=True)


def long(examples: int) -> settings:
    """So many examples in a soak, others each time; elsewhere a fortieth of them, always the same."""
    if "PILOTHOUSE_SOAK" in os.environ:
        return settings(_SHARED, max_examples=examples)
    return settings(_SHARED, max_examples=max(examples // 40, 5), derandomize=True)
