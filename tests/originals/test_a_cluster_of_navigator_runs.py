"""The cluster of Navigator's own end-to-end test, in v1alpha1 and with its pilot's image, runs on `pilothouse up`.

The only word that is changed is the version: pilots do not run the one that it names.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.kit.elasticsearch_on_up import ElasticsearchOnUp
from tests.kit.manifests import load
from tests.kit.real_elasticsearch import ANY_DISK

MANIFEST = Path(__file__).parent / "manifests" / "navigator" / "es-cluster-test.yaml"


@pytest.mark.long
@pytest.mark.timeout(900)
async def test_it_becomes_available_without_a_volume_and_takes_a_document(tmp_path: Path) -> None:
    async with ElasticsearchOnUp.open(tmp_path) as installation:
        [manifest] = load(MANIFEST)
        manifest["spec"]["version"] = "8.17.0"
        # As the first editions of the test said it.
        manifest["spec"]["nodePools"][0]["persistence"] = {"enabled": False}
        applied = await installation.kubectl("apply", "-f", "-", stdin=json.dumps(manifest))
        assert "created" in applied.ok()
        assert "persistence.enabled: deprecated" in applied.err

        test = installation.known("test")
        await test.until(lambda seen: seen.is_done)
        assert [pod.name for pod in await test.pods()] == ["es-test-mixed-0"]
        assert (await installation.kubectl("get", "pvc", "-o", "name")).ok() == ""

        await test.http("PUT", "/_cluster/settings", {"persistent": ANY_DISK})
        await test.http("PUT", "/books/_doc/1?refresh=true", {"title": "The Voyage Out"})
        found = await test.http("GET", "/books/_search?q=voyage")
        assert found["hits"]["total"]["value"] == 1
        await test.until(lambda seen: seen.health == "Yellow")
