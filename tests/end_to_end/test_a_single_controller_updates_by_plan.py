"""Scenarios of k0s's own integration tests that need one controller, and one worker at most, with real processes.

All of them use one fleet, one after another, and each of them another version; on both stores.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.kit.channel_server import Answer, ChannelServer, serving_channel
from tests.kit.managed_programs import program
from tests.kit.processes import Process
from tests.kit.update_fleet import CONTROLLERS, GROUP, PLATFORM, UpdateFleet, named

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]
Json = dict[str, Any]
EVERY: Json = {"discovery": {"selector": {}}}
LATEST, STABLE = "/latest/index.yaml", "/stable"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_LATE = 300 * 24 * 3600.0
"""In the last third of the year for which certificates of nodes are valid."""
REMOVED = "removedcrds.k0s.k0sproject.example.com"


@dataclass(frozen=True)
class Single:
    fleet: UpdateFleet
    channels: ChannelServer
    store: str

    def index(self, version: str) -> str:
        """The list of downloads of a version, which the fleet's own server has."""
        system, arch = PLATFORM.split("-")
        download = {"os": system, "arch": arch, "k0s": self.fleet.payloads.url(f"/{version}")}
        return json.dumps({"channel": "latest", "version": version, "downloadURLs": [download]})


@pytest.fixture(scope="module", params=["sqlite", "etcd"])
def single(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Single]:
    store = request.param
    probed = json.dumps({"version": "v5.6.7", "downloadURLs": []})
    with serving_channel({LATEST: Answer(probed)}) as channels:
        flags = ["--controllers", f"{CONTROLLERS},update-configs", "--update-prober", channels.url]
        flags += ["--storage-type", store]
        folder = tmp_path_factory.mktemp("fleet")
        with UpdateFleet(folder, store=store, controllers=1, workers=1, manager_flags=flags) as fleet:
            yield Single(fleet, channels, store)


@pytest.fixture
def fleet(single: Single) -> Iterator[UpdateFleet]:
    yield single.fleet
    single.fleet.replace()


def update(fleet: UpdateFleet, version: str, **targets: Json) -> Json:
    """A forced update, as these scenarios have it."""
    fleet.offer(version, program(version))
    platforms = fleet.platforms(version)
    return {"version": version, "forceupdate": True, "platforms": platforms, "targets": targets}


def controllers(plan: Json) -> list[tuple[str, str]]:
    [command] = plan["status"]["commands"]
    assert command["state"] == "Completed"
    return [(each["name"], each["state"]) for each in command["k0supdate"]["controllers"]]


def test_ap_single(fleet: UpdateFleet) -> None:
    """ap-single: the program at the path of its profile is the one that is replaced."""
    version = "v1.0.1"
    fleet.replace(fleet.plan_of({"k0supdate": update(fleet, version, controllers=named("controller0"))}))
    plan = fleet.completed()
    assert controllers(plan) == [("controller0", "SignalCompleted")]
    assert not plan["status"]["commands"][0]["k0supdate"].get("workers")
    [controller], [worker] = fleet.controllers, fleet.workers
    assert controller.program.read_bytes() == program(version)
    assert controller.version() == version
    assert worker.version() != version


def test_ap_platformselect(fleet: UpdateFleet) -> None:
    """ap-platformselect: of several platforms, the labels of the machine choose."""
    version = "v1.0.2"
    command = update(fleet, version, controllers=named("controller0"))
    right = command["platforms"][PLATFORM]
    wrong = {"url": fleet.payloads.url("/for-another-platform")}
    command["platforms"] = {
        **dict.fromkeys(("windows-amd64", "linux-amd64", "linux-arm64"), wrong),
        PLATFORM: right,
    }
    fleet.replace(fleet.plan_of({"k0supdate": command}))
    assert controllers(fleet.completed()) == [("controller0", "SignalCompleted")]
    assert fleet.controllers[0].version() == version
    assert "/for-another-platform" not in [seen.path for seen in fleet.payloads.seen]


def test_ap_airgap(fleet: UpdateFleet) -> None:
    """ap-airgap, k0s-A30: the bundle is on the worker before the program of any machine is replaced."""
    version = "v1.0.3"
    fleet.offer("bundle.tar", b"images")
    bundle = {"version": version, "platforms": fleet.platforms("bundle.tar"), "workers": named("worker0")}
    command = update(fleet, version, controllers=named("controller0"), workers=named("worker0"))
    fleet.replace(fleet.plan_of({"airgapupdate": bundle}, {"k0supdate": command}))
    plan = fleet.completed()
    assert [each["state"] for each in plan["status"]["commands"]] == ["Completed", "Completed"]
    assert (fleet.workers[0].folder / "images" / "bundle.tar").read_bytes() == b"images"
    assert not (fleet.controllers[0].folder / "images" / "bundle.tar").exists()
    paths = [seen.path for seen in fleet.payloads.seen]
    assert paths.index("/bundle.tar") < paths.index(f"/{version}")
    assert [machine.version() for machine in fleet.machines] == [version] * 2


def test_ap_removedapis(fleet: UpdateFleet) -> None:
    """ap-removedapis, k0s-A35: objects that the version could not read any more end the plan before it begins."""
    group, version = "k0s.k0sproject.example.com", "v1beta1"
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": REMOVED},
        "spec": {
            "group": group,
            "names": {"kind": "RemovedCRD", "plural": "removedcrds"},
            "scope": "Namespaced",
            "versions": [{"name": version, "served": True, "storage": True, "schema": schema}],
        },
    }
    fleet.send("POST", CRDS, definition)
    try:
        path = f"/apis/{group}/{version}/namespaces/default/removedcrds"
        one = {"apiVersion": f"{group}/{version}", "kind": "RemovedCRD", "metadata": {"name": "one"}}
        fleet.wait(lambda: fleet.answers("POST", path, one), "the kind to be served")
        before = fleet.controllers[0].version()
        command = update(fleet, "v99.99.99", controllers=named("controller0"))
        fleet.replace(fleet.plan_of({"k0supdate": {**command, "forceupdate": False}}))
        plan = fleet.until(lambda each: each["status"].get("completedTime") is not None)
        assert plan["status"]["state"] == "Warning"
        [status] = plan["status"]["commands"]
        assert status["state"] == "Warning"
        assert status["description"] == (
            f"{REMOVED} v1beta1 has been removed in Kubernetes v99.99.99, but there are 1 such resources in "
            "the cluster"
        )
        assert fleet.controllers[0].version() == before
    finally:
        fleet.send("DELETE", f"{CRDS}/{REMOVED}")


def test_ap_updater(single: Single, fleet: UpdateFleet) -> None:
    """ap-updater, k0s-A45: by a schedule of every second, the older form of a channel becomes a plan."""
    version = "v0.0.0"
    fleet.offer(version, program(version))
    urls = {"k0s": {PLATFORM: fleet.payloads.url(f"/{version}")}}
    single.channels.answers[STABLE] = Answer(json.dumps({"version": version, "downloadURLs": urls}))
    planned = {"commands": [{"k0supdate": {"forceupdate": True, "targets": {"controllers": EVERY}}}]}
    strategy = {"type": "cron", "cron": "* * * * * *"}
    with following(single, channel="stable", upgradeStrategy=strategy, planSpec=planned):
        fleet.wait(lambda: fleet.answers("GET", f"{GROUP}/plans/autopilot"), "the plan")
        assert controllers(fleet.completed()) == [("controller0", "SignalCompleted")]
    assert fleet.controllers[0].version() == version


def test_ap_updater_periodic(single: Single, fleet: UpdateFleet) -> None:
    """ap-updater-periodic, k0s-A38, k0s-A46: first a newer version is announced, then an UpdateConfig follows it."""
    version = "v5.6.7"
    events = "/api/v1/namespaces/kube-system/events"
    [event] = fleet.wait(lambda: announcements(fleet.send("GET", events)["items"]), "the announcement")
    assert (event["type"], event["source"]["component"]) == ("Normal", "k0s")
    assert event["message"] == f"New version available: {version}"
    probed = len(single.channels.asked)
    fleet.offer(version, program(version))
    single.channels.answers[LATEST] = Answer(single.index(version))
    days = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
    window = {"days": days, "startTime": "00:00", "length": "24h"}
    targets = {"controllers": EVERY, "workers": EVERY}
    planned = {"commands": [{"k0supdate": {"forceupdate": True, "targets": targets}}]}
    strategy = {"type": "periodic", "periodic": window}
    with following(single, channel="latest", upgradeStrategy=strategy, planSpec=planned):
        fleet.wait(lambda: fleet.answers("GET", f"{GROUP}/plans/autopilot"), "the plan")
        fleet.completed()
    assert [machine.version() for machine in fleet.machines] == [version] * 2
    headers = single.channels.asked[probed].headers
    uid = fleet.send("GET", "/api/v1/namespaces/kube-system")["metadata"]["uid"]
    assert headers["K0S_ClusterID"] == f"kube-system:{uid}"
    assert headers["K0S_ControlPlaneNodesCount"] == "1"
    assert (headers["K0S_StorageType"], headers["K0S_CNIProvider"]) == (single.store, "pilothouse")
    first = single.channels.asked[0].headers
    for name in ("K0S_ClusterID", "K0S_StorageType", "K0S_CNIProvider"):
        assert first[name] == headers[name]


def test_kubeletcertrotate(fleet: UpdateFleet) -> None:
    """kubeletcertrotate: the certificate of a worker is due, and renewed by its agent while that runs; plans of one
    id, deleted and created again, each do their work all the same."""
    [worker] = fleet.workers
    worker.kill_agent()
    first = worker.certificate()
    worker.start_agent(clock_ahead=_LATE)
    try:
        fleet.wait(lambda: worker.certificate() != first, "another certificate")
        targets = {"controllers": named("controller0"), "workers": named("worker0")}
        for version in ("v1.0.4", "v1.0.5", "v1.0.6"):
            fleet.replace(fleet.plan_of({"k0supdate": update(fleet, version, **targets)}))
            fleet.completed()
            assert [machine.version() for machine in fleet.machines] == [version] * 2
    finally:
        worker.kill_agent()
        worker.start_agent()


def test_capitalhostnames(fleet: UpdateFleet, tmp_path: Path) -> None:
    """capitalhostnames: the ControlNode of a host whose name has capitals has the name in lower case."""
    config = fleet.server.target.kubeconfig.with_name("controller-manager.kubeconfig")
    begin = (
        "import os, socket, sys; socket.sethostname('K0s-Controller'); os.execv(sys.argv[1], sys.argv[1:])"
    )
    argv = ["unshare", "--user", "--map-root-user", "--uts", sys.executable, "-c", begin]
    argv += [sys.executable, "-m", "pilothouse", "controller-manager", "--kubeconfig", str(config)]
    manager = Process.start("manager", [*argv, "--control-node"], log=tmp_path / "manager.log")

    def names() -> set[str]:
        return {each["metadata"]["name"] for each in fleet.send("GET", f"{GROUP}/controlnodes")["items"]}

    try:
        fleet.wait(lambda: names() == {"controller0", "k0s-controller"}, "the ControlNode")
        found = fleet.send("GET", f"{GROUP}/controlnodes/k0s-controller")
        assert found["metadata"]["labels"]["kubernetes.io/hostname"] == "k0s-controller"
    finally:
        manager.kill()
        fleet.send("DELETE", f"{GROUP}/controlnodes/k0s-controller")


class following:
    """An UpdateConfig, within the context."""

    def __init__(self, single: Single, **spec: Any) -> None:
        self._fleet = single.fleet
        spec = {"updateServer": single.channels.url, **spec}
        self._tree = {
            "apiVersion": "autopilot.k0sproject.io/v1beta2",
            "kind": "UpdateConfig",
            "metadata": {"name": "updates"},
            "spec": spec,
        }

    def __enter__(self) -> None:
        self._fleet.replace()
        self._fleet.send("POST", f"{GROUP}/updateconfigs", self._tree)

    def __exit__(self, *_: object) -> None:
        self._fleet.send("DELETE", f"{GROUP}/updateconfigs/updates")


def announcements(events: list[Json]) -> list[Json]:
    return [event for event in events if event["reason"] == "NewVersionAvailable"]
