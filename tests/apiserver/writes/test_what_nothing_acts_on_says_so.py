"""Kinds that no controller acts on yet say so: a warning at creation, and a condition until somebody writes the status."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.kit.core import CoreServer

EXAMPLES = Path(__file__).parents[3] / "examples"
STORED = {
    "cassandra": "/apis/navigator.jetstack.io/v1beta1/namespaces/default/cassandraclusters",
}
MERGE = "application/merge-patch+json"


@pytest.fixture(scope="module")
def server() -> Iterator[CoreServer]:
    with CoreServer() as running:
        yield running


def unattended(obj: dict[str, Any]) -> list[dict[str, Any]]:
    conditions = (obj.get("status") or {}).get("conditions") or []
    return [each for each in conditions if each["reason"] == "NoController"]


@pytest.mark.parametrize("name", sorted(STORED))
def test_an_example_that_is_only_stored(server: CoreServer, name: str) -> None:
    text = (EXAMPLES / f"{name}.yaml").read_text()
    assert "Only stored so far" in text.splitlines()[0]
    obj = next(yaml.safe_load_all(text))

    answer = server.send("POST", STORED[name], obj)

    (condition,) = unattended(answer.expect(201))
    assert (condition["type"], condition["status"]) == ("Reconciled", "False")
    assert any(text.startswith(f"{obj['kind']}: no controller") for text in answer.warnings)
    at = f"{STORED[name]}/{obj['metadata']['name']}"
    labelled = server.send("PATCH", at, {"metadata": {"labels": {"a": "b"}}}, type=MERGE)
    assert unattended(labelled.expect(200)) == [condition]
    assert not any("no controller" in text for text in labelled.warnings)
    assert labelled.json["metadata"]["generation"] == 1


def test_what_somebody_looks_after_does_not_say_so(server: CoreServer) -> None:
    path = "/apis/apps/v1/namespaces/default/deployments"
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    body = {
        "metadata": {"name": "d"},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template},
    }
    assert unattended(server.send("POST", path, body).expect(201))

    status = {"status": {"observedGeneration": 1, "replicas": 1, "conditions": None}}
    server.send("PATCH", f"{path}/d/status", status, type=MERGE).expect(200)
    scaled = server.send("PATCH", f"{path}/d", {"spec": {"replicas": 2}}, type=MERGE).expect(200)

    assert unattended(scaled) == []
    assert scaled["status"]["observedGeneration"] == 1
