"""The manifests of the founding documents, and every example, sent to a server with kubectl."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from tests.kit.http import Http
from tests.kit.kubectl import Kubectl
from tests.kit.seeds import SEEDS, Seed
from tests.kit.servers import Target

pytestmark = pytest.mark.kubectl

EXAMPLES = sorted((Path(__file__).parents[3] / "examples").glob("*.yaml"))
EACH_SEED = pytest.mark.parametrize("seed", SEEDS, ids=lambda seed: seed.file)


@pytest.fixture(autouse=True)
async def ours_with_the_namespace_of_the_seed(target: Target, http: Http) -> None:
    if target.name == "kube":
        pytest.skip("a real kube-apiserver does not have these kinds until their CRDs are applied")
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "logging"}}
    (await http.post("/api/v1/namespaces", namespace)).expect(201, 409)


@EACH_SEED
async def test_as_it_stands_it_applies_or_says_what_is_wrong(seed: Seed, kubectl: Kubectl) -> None:
    done = await kubectl("apply", "--dry-run=server", "-f", "-", stdin=seed.text())
    if seed.served and not seed.problems:
        done.ok()
        return
    assert done.code != 0
    for path, _ in seed.problems:
        assert path in done.err


@EACH_SEED
async def test_mended_it_applies_and_is_listed(seed: Seed, kubectl: Kubectl) -> None:
    manifest = yaml.safe_dump_all(seed.mended())
    (await kubectl("apply", "-f", "-", stdin=manifest)).ok()
    (await kubectl("get", "-f", "-", stdin=manifest)).ok()
    (await kubectl("delete", "-f", "-", stdin=manifest)).ok()


async def test_the_mended_pilot_is_to_be_decommissioned(kubectl: Kubectl) -> None:
    manifest = yaml.safe_dump_all(next(seed for seed in SEEDS if seed.file == "pilot.yaml").mended())
    (await kubectl("apply", "-f", "-", stdin=manifest)).ok()
    header, row = (await kubectl("get", "pilots", "-n", "logging")).rows()
    assert "DECOMMISSION" in header
    assert "true" in row
    (await kubectl("delete", "-f", "-", stdin=manifest)).ok()


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
async def test_an_example_is_listed_and_applied_again_changes_nothing(
    path: Path, kubectl: Kubectl, ns: str
) -> None:
    revisions = []
    for _ in range(2):
        (await kubectl("apply", "-n", ns, "-f", str(path))).ok()
        revision = await kubectl(
            "get", "-n", ns, "-f", str(path), "-o", "jsonpath={..metadata.resourceVersion}"
        )
        revisions.append(revision.ok())
    assert revisions[0] == revisions[1]
    tables = (await kubectl("get", "-n", ns, "-f", str(path))).ok().strip().split("\n\n")
    headers = [table.splitlines()[0].split() for table in tables]
    assert all(len(header) >= 3 for header in headers)
    assert sum(len(table.splitlines()) - 1 for table in tables) == _objects(path)
    (await kubectl("delete", "-n", ns, "-f", str(path))).ok()


def _objects(manifest: Path) -> int:
    return sum(document is not None for document in yaml.safe_load_all(manifest.read_text()))
