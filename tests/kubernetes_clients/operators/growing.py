"""A small kopf operator: it greets each Database in its status, follows the spec, and says farewell."""

from __future__ import annotations

from typing import Any

import kopf


@kopf.on.startup()
def hurry(settings: kopf.OperatorSettings, **_: Any) -> None:
    settings.posting.enabled = True
    settings.batching.batch_window = 0.05


@kopf.on.create("nav.example.io", "v1", "databases")
def greet(spec: kopf.Spec, patch: kopf.Patch, body: kopf.Body, **_: Any) -> dict[str, int]:
    patch.status["phase"] = "Created"
    patch.status["replicas"] = spec["replicas"]
    kopf.event(body, type="Normal", reason="Greeted", message="hello")
    return {"seen": spec["replicas"]}


@kopf.on.update("nav.example.io", "v1", "databases", field="spec.replicas")
def follow(new: Any, patch: kopf.Patch, **_: Any) -> None:
    patch.status["phase"] = "Scaled"
    patch.status["replicas"] = new


@kopf.on.delete("nav.example.io", "v1", "databases")
def farewell(name: str, namespace: str | None, **_: Any) -> None:
    print(f"farewell {namespace}/{name}", flush=True)
