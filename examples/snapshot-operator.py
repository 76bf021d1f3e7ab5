"""An operator, written with kopf, that carries out an action of its own domain.

    kopf run --all-namespaces examples/snapshot-operator.py

A rule fires it like any other action, with approval, budget and cool-down:

    actions:
      - name: example.com.action.volume/snapshot
        params: {keep: "7"}

Here a snapshot is a line in the log; put your storage's own command in its place.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import kopf

ACTIONS = ("autopilot.libopenstorage.org", "v1alpha1", "applicationactions")
SNAPSHOT = "example.com.action.volume/snapshot"


def is_ours(spec: kopf.Spec, status: kopf.Status, **_: Any) -> bool:
    """An action that nothing has begun; one that was begun before a crash is carried out again."""
    return spec["action"] == SNAPSHOT and status.get("phase", "Pending") in ("Pending", "Running")


@kopf.on.resume(*ACTIONS, when=is_ours)
@kopf.on.create(*ACTIONS, when=is_ours)
def snapshot(spec: kopf.Spec, name: str, namespace: str | None, patch: kopf.Patch, **_: Any) -> None:
    # Named after the action, so that another attempt finds the same snapshot.
    made = f"snapshot-{name}"
    print(f"snapshot {made} of {namespace}/{spec['object']['name']}, {dict(spec['parameters'])}", flush=True)
    patch.status["phase"] = "Succeeded"
    patch.status["after"] = {"snapshot": made}
    patch.status["completionTime"] = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
