"""The pods by which Kubernetes tests its Pod Security Standards are admitted or refused here as they are there.

They are sent to namespaces that enforce their level in their version. What no policy forbids may still be something
that our nodes can't honour (``docs/pod-fields.md``); that is another answer than a policy's.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import yaml
from tests.kit.core import CoreServer
from tests.kit.run_report import Tell

pytestmark = pytest.mark.long

SCRIPT = Path(__file__).parents[3] / "scripts" / "tools" / "pod-security-fixtures"


@pytest.fixture(scope="module")
def fixtures() -> Path:
    """The folder they are in."""
    found = subprocess.run([SCRIPT], check=True, capture_output=True, text=True, timeout=240)
    return Path(found.stdout.strip())


def test_each_is_admitted_or_refused_as_there(fixtures: Path, tell: Tell) -> None:
    wrong, counts = [], {"pass": 0, "fail": 0}
    with CoreServer() as server:
        for folder in sorted(fixtures.glob("*/v*")):
            level, version = folder.parts[-2:]
            namespace = f"{level}-{version.replace('.', '-')}"
            labels = {"enforce": level, "enforce-version": version}
            metadata = {
                "name": namespace,
                "labels": {f"pod-security.kubernetes.io/{key}": value for key, value in labels.items()},
            }
            server.send("POST", "/api/v1/namespaces", {"metadata": metadata}).expect(201)
            server.send(
                "POST", f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": "default"}}
            ).expect(201)
            for file in sorted(folder.glob("*/*.yaml")):
                pod = yaml.load(file.read_text(), Loader=yaml.CSafeLoader)
                # Theirs are names of checks, which are no names of pods.
                pod["metadata"]["name"] = "test"
                for volume in pod["spec"].get("volumes", ()):
                    if "scaleIO" in volume:
                        # Required by Kubernetes' OpenAPI document, which is what we go by.
                        volume["scaleIO"]["secretRef"] = {"name": "a"}
                answer = server.send("POST", f"/api/v1/namespaces/{namespace}/pods", pod, query="dryRun=All")
                expected = file.parent.name
                counts[expected] += 1
                refused = f'violates PodSecurity "{level}:{version}": ' in answer.message
                allowed = answer.status == 201 or "our nodes can't honour this" in answer.message
                if (refused, allowed) != (expected == "fail", expected == "pass"):
                    wrong.append((str(file.relative_to(fixtures)), answer.status, answer.message))
    assert wrong == []
    assert min(counts.values()) > 800, counts
    tell(f"{counts['pass']} pods admitted and {counts['fail']} refused, as in Kubernetes' own tests")
