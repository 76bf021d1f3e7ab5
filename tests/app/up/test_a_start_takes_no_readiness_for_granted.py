"""After a start nothing is ready before it has been seen to be, whatever was stored: `kubectl wait` does not pass on hearsay."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from tests.app.up.manifests import stateful_set
from tests.app.up.watching import lives, pod_once
from tests.kit.control_planes import UpPlane
from tests.kit.waiting import eventually

pytestmark = pytest.mark.long


class Readiness:
    """What a pod's readiness probe is told: a server of this test's, on loopback."""

    def __init__(self) -> None:
        outer = self
        self.answer = 200
        self.asked = 0

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.asked += 1
                self.send_response(outer.answer)
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                """Nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self.server.serve_forever)
        self._thread.start()

    def close(self) -> None:
        self.server.shutdown()
        self._thread.join()
        self.server.server_close()

    @property
    def probe(self) -> dict[str, Any]:
        port = self.server.server_address[1]
        return {"httpGet": {"host": "127.0.0.1", "port": port, "path": "/"}, "periodSeconds": 1}


@pytest.fixture
def readiness() -> Iterator[Readiness]:
    readiness = Readiness()
    yield readiness
    readiness.close()


def kill_all(plane: UpPlane) -> None:
    roles = [role["pid"] for role in plane.report["roles"]]
    for pid in roles:
        os.kill(pid, signal.SIGKILL)
    plane.stop(signal.SIGKILL)


def stop(plane: UpPlane) -> None:
    assert plane.stop() == 0


@pytest.mark.parametrize("end", [kill_all, stop], ids=["killed", "stopped"])
async def test_what_was_ready_before_is_not_until_it_is_seen_to_be(
    plane: UpPlane, readiness: Readiness, end: Any
) -> None:
    manifest = stateful_set(readinessProbe=readiness.probe)
    await plane.kubectl("apply", "-f", "-", stdin=manifest)
    await pod_once(plane)
    done = await plane.kubectl("rollout", "status", "statefulset/web", "--timeout=60s")
    assert done.code == 0, done.err
    end(plane)
    readiness.answer, before = 503, readiness.asked
    process = plane.begin()

    async def answers() -> dict[str, Any] | None:
        """The first answer that there is."""
        assert process.popen.poll() is None, process.output()
        found = await plane.kubectl("get", "node,pod,statefulset", "-o", "json")
        return dict(json.loads(found.out)) if found.code == 0 else None

    first = {each["kind"]: each for each in (await eventually(answers, seconds=60))["items"]}
    assert condition(first["Pod"]) == "False"
    assert [each["ready"] for each in first["Pod"]["status"]["containerStatuses"]] == [False]
    assert not first["StatefulSet"]["status"].get("readyReplicas")
    assert not first["StatefulSet"]["status"].get("availableReplicas")
    for command in (
        ("wait", "pod/web-0", "--for=condition=Ready", "--timeout=0"),
        ("rollout", "status", "statefulset/web", "--watch=false"),
    ):
        said = await plane.kubectl(*command)
        assert said.code != 0 or "Waiting for 1 pods to be ready" in said.out, said
    # The node has looked by itself, and found it wanting: that the pod is not ready is known, and no longer for want of a node.
    await eventually(lambda: asked_since(readiness, before))

    async def known() -> bool:
        pod = json.loads((await plane.kubectl("get", "pod", "web-0", "-o", "json")).out)
        [ready] = [each for each in pod["status"]["conditions"] if each["type"] == "Ready"]
        return bool(ready["status"] == "False" and ready["reason"] == "ContainersNotReady")

    await eventually(known)
    readiness.answer = 200
    waited = await plane.kubectl("wait", "pod/web-0", "--for=condition=Ready", "--timeout=60s")
    assert waited.code == 0, waited.err
    node = await plane.kubectl("wait", "node/n1", "--for=condition=Ready", "--timeout=60s")
    assert node.code == 0, node.err


async def test_a_server_that_is_started_again_takes_nothing_back(
    plane: UpPlane, readiness: Readiness
) -> None:
    await plane.kubectl("apply", "-f", "-", stdin=stateful_set(readinessProbe=readiness.probe))
    pod = await pod_once(plane)
    killed = plane.role("apiserver")["pid"]
    os.kill(killed, signal.SIGKILL)

    async def answers() -> dict[str, Any] | None:
        if plane.role("apiserver")["pid"] == killed or lives(killed):
            return None
        found = await plane.kubectl("get", "pod", "web-0", "-o", "json")
        return dict(json.loads(found.out)) if found.code == 0 else None

    after = await eventually(answers, seconds=60)
    assert condition(after) == "True"
    assert moved(after) == moved(pod)


async def asked_since(readiness: Readiness, before: int) -> bool:
    return readiness.asked > before


def condition(one: dict[str, Any]) -> str:
    [found] = [each for each in one["status"]["conditions"] if each["type"] == "Ready"]
    return str(found["status"])


def moved(one: dict[str, Any]) -> str:
    """When it last became ready, or ceased to be."""
    [found] = [each for each in one["status"]["conditions"] if each["type"] == "Ready"]
    return str(found["lastTransitionTime"])
