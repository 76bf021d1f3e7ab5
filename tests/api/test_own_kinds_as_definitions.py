"""A real kube-apiserver takes our kinds as CRDs, with every column and field, and then the examples."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.kit.http import Http
from tests.kit.kubectl import Kubectl
from tests.kit.manifests import load
from tests.kit.servers import Target

from pilothouse.api.registry import own_resources
from pilothouse.meta.crd import crd_manifest

pytestmark = [pytest.mark.conformance, pytest.mark.kubectl]
EXAMPLES = sorted((Path(__file__).parent.parent.parent / "examples").glob("*.yaml"))


@pytest.fixture(autouse=True)
def only_where_they_are_not_built_in(target: Target) -> None:
    if target.name != "kube":
        pytest.skip("our server has these kinds built in; run with --target=kube")


async def test_they_are_established_and_take_the_examples(kubectl: Kubectl, http: Http, ns: str) -> None:
    definitions = [crd_manifest(resource) for resource in own_resources()]
    manifest = yaml.safe_dump_all(definitions)
    (await kubectl("apply", "--server-side", "-f", "-", stdin=manifest)).ok()
    (await kubectl("wait", "--for=condition=Established", "--timeout=30s", "-f", "-", stdin=manifest)).ok()
    for definition in definitions:
        path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{definition['metadata']['name']}"
        stored = (await http.get(path)).expect(200)
        assert _faults(stored) == []
    for example in EXAMPLES:
        assert load(example)
        (await kubectl("apply", "--validate=strict", "-n", ns, "-f", str(example))).ok()
        header, *rows = (await kubectl("get", "-n", ns, "-f", str(example))).rows()
        assert len(header) >= 3
        assert len(rows) == 1


def _faults(definition: dict[str, Any]) -> list[str]:
    return [
        condition["message"]
        for condition in definition["status"]["conditions"]
        if condition["type"] == "NonStructuralSchema" and condition["status"] == "True"
    ]
