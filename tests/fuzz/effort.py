"""How hard hypothesis tries.

One server answers all examples of a module, so an example is not independent of those before it: nothing is gained by
shrinking or replaying one. The quick tests always try the same examples, the long ones others each time.
"""

from __future__ import annotations

from hypothesis import HealthCheck, Phase, settings

_SHARED = settings(
    deadline=None,
    database=None,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=list(HealthCheck),
)
QUICK = settings(_SHARED, max_examples=15, derandomize=True)
LONG = settings(_SHARED, max_examples=400)
