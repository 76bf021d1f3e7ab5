"""Signals of update plans: a machine that is signalled replaces its own program, so few may signal."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.kit.sample_installation import SampleInstallation, node

from pilothouse.api.k0s.signals import DATA_ANNOTATION, Signal, SignalCommand, SignalStatus, SignalUpdate
from pilothouse.apiserver.server.messages import User

Json = dict[str, Any]
MERGE = "application/merge-patch+json"
N1 = node("n1")
CONTROL_NODES = "/apis/autopilot.k0sproject.io/v1beta2/controlnodes"
PLANS = "/apis/autopilot.k0sproject.io/v1beta2/plans"
_TYPE = {"apiVersion": "autopilot.k0sproject.io/v1beta2"}
_RBAC = {"apiVersion": "rbac.authorization.k8s.io/v1"}
NOW = "2026-01-01T00:00:00Z"
SENT = Signal(
    "id1", NOW, SignalCommand(0, k0supdate=SignalUpdate("https://example.com/k0s", "v2")), plan_uid="u"
)
MANAGER = User("pilothouse:controller-manager")
LABELLER = User("labeller")


@pytest.fixture(scope="module", autouse=True)
def machines(shop: SampleInstallation) -> None:
    shop.grant_everything(N1)
    for name in ("n1", "n2"):
        shop.send("POST", CONTROL_NODES, {**_TYPE, "kind": "ControlNode", "metadata": {"name": name}}).expect(
            201
        )
    rules = [
        {"apiGroups": [""], "resources": ["nodes"], "verbs": ["*"]},
        {"apiGroups": ["autopilot.k0sproject.io"], "resources": ["controlnodes"], "verbs": ["*"]},
    ]
    roles = "/apis/rbac.authorization.k8s.io/v1/"
    role = {**_RBAC, "kind": "ClusterRole", "metadata": {"name": "labeller"}, "rules": rules}
    shop.send("POST", f"{roles}clusterroles", role).expect(201)
    bound = {
        **_RBAC,
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "labeller"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "labeller"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "labeller"}],
    }
    shop.send("POST", f"{roles}clusterrolebindings", bound).expect(201)


def with_signal(signal: Signal | None) -> Json:
    if signal is None:
        return {"metadata": {"annotations": dict.fromkeys(SENT.annotations())}}
    return {"metadata": {"annotations": signal.annotations()}}


def written(shop: SampleInstallation, path: str, signal: Signal | None, user: User) -> Any:
    return shop.send("PATCH", path, with_signal(signal), type=MERGE, user=user)


BOTH = pytest.mark.parametrize("path", ["/api/v1/nodes/n1", f"{CONTROL_NODES}/n1"])


@BOTH
def test_it_sends_no_signal_not_even_to_itself(shop: SampleInstallation, path: str) -> None:
    said = shop.refused(written(shop, path, SENT, N1))
    assert "a machine changes only the status of the signal that it has" in said


@BOTH
def test_who_may_label_machines_may_not_signal_them(shop: SampleInstallation, path: str) -> None:
    said = shop.refused(written(shop, path, SENT, LABELLER))
    assert "needs the verb signal on plans.autopilot.k0sproject.io autopilot" in said
    shop.send("PATCH", path, {"metadata": {"labels": {"a": "b"}}}, type=MERGE, user=LABELLER).expect(200)


@BOTH
def test_it_reports_its_own_steps_and_no_others(shop: SampleInstallation, path: str) -> None:
    written(shop, path, SENT, MANAGER).expect(200)
    try:
        downloading = SENT.advanced("Downloading", NOW)
        written(shop, path, downloading, N1).expect(200)
        cordoning = downloading.advanced("Cordoning", NOW)
        written(shop, path, cordoning, N1).expect(200)
        for forged, because in (
            (downloading, "does not go from Cordoning to Downloading"),
            (cordoning.advanced("ApplyingUpdate", NOW), "does not go from Cordoning to ApplyingUpdate"),
            (cordoning.advanced("Completed", NOW), "does not go from Cordoning to Completed"),
            (msgspec.structs.replace(cordoning, plan_uid="other"), "changes only the status"),
            (None, "changes only the status"),
        ):
            assert because in shop.refused(written(shop, path, forged, N1))
        written(shop, path, cordoning.advanced("ApplyingUpdate", NOW), MANAGER).expect(200)
        restart = cordoning.advanced("ApplyingUpdate", NOW).advanced("Restart", NOW)
        written(shop, path, restart, N1).expect(200)
    finally:
        written(shop, path, None, MANAGER).expect(200)


def test_it_does_not_end_a_cordon_by_saying_that_a_plan_began_it(shop: SampleInstallation) -> None:
    marked = {"metadata": {"annotations": {"autopilot.k0sproject.io/cordoned-by": "u"}}}
    said = shop.refused(shop.send("PATCH", "/api/v1/nodes/n1", marked, type=MERGE, user=N1))
    assert (
        "metadata.annotations[autopilot.k0sproject.io/cordoned-by]: a node may not set or change it" in said
    )
    version = {"metadata": {"annotations": {"autopilot.k0sproject.io/version": "v1"}}}
    shop.send("PATCH", "/api/v1/nodes/n1", version, type=MERGE, user=N1).expect(200)


def test_it_holds_no_plan_up_by_what_it_reports(shop: SampleInstallation) -> None:
    path = f"{CONTROL_NODES}/n1"
    written(shop, path, SENT, MANAGER).expect(200)
    try:
        long = msgspec.structs.replace(SENT, status=SignalStatus("Failed", NOW, "x" * 2000))
        assert "a reason has at most 1024 characters" in shop.refused(written(shop, path, long, N1))
        late = msgspec.structs.replace(SENT, status=SignalStatus("Downloading", "tomorrow"))
        assert "the timestamp is none" in shop.refused(written(shop, path, late, N1))
    finally:
        written(shop, path, None, MANAGER).expect(200)


def test_it_does_not_touch_the_signal_of_another_machine(shop: SampleInstallation) -> None:
    path = f"{CONTROL_NODES}/n2"
    written(shop, path, SENT, MANAGER).expect(200)
    shop.refused(written(shop, path, SENT.advanced("Failed", NOW, "not really"), N1))
    shop.refused(shop.send("GET", path, user=N1))
    kept = shop.send("GET", path).expect(200)["metadata"]["annotations"][DATA_ANNOTATION]
    assert kept == SENT.annotations()[DATA_ANNOTATION]


def test_it_changes_of_its_control_node_signal_and_status_only(shop: SampleInstallation) -> None:
    path = f"{CONTROL_NODES}/n1"
    for metadata, field in (
        ({"labels": {"kubernetes.io/arch": "arm64"}}, "labels"),
        ({"annotations": {"example.com/note": "hello"}}, "annotations"),
        ({"finalizers": ["example.com/x"]}, "finalizers"),
    ):
        said = shop.refused(shop.send("PATCH", path, {"metadata": metadata}, type=MERGE, user=N1))
        assert f"metadata.{field}: a node may not change it" in said
    status = {"status": {"k0sVersion": "v1"}}
    shop.send("PATCH", f"{path}/status", status, type=MERGE, user=N1).expect(200)
    ready = {"type": "Ready", "status": "True", "reason": "x", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    heard = {"status": {"conditions": [ready]}}
    said = shop.refused(shop.send("PATCH", f"{path}/status", heard, type=MERGE, user=N1))
    assert "status.conditions: a node may not change it" in said
    shop.refused(shop.send("DELETE", path, user=N1))
    shop.refused(
        shop.send(
            "POST", CONTROL_NODES, {**_TYPE, "kind": "ControlNode", "metadata": {"name": "n3"}}, user=N1
        )
    )


def test_it_claims_no_address_that_managers_would_then_ask(shop: SampleInstallation) -> None:
    status = {"status": {"addresses": [{"type": "InternalIP", "address": "10.1.2.3"}]}}
    said = shop.refused(shop.send("PATCH", f"{CONTROL_NODES}/n1/status", status, type=MERGE, user=N1))
    assert "status.addresses: 10.1.2.3 is not the address that the machine calls from" in said
    name = {"status": {"addresses": [{"type": "Hostname", "address": "10.1.2.3"}]}}
    shop.send("PATCH", f"{CONTROL_NODES}/n1/status", name, type=MERGE, user=N1).expect(200)
    shop.refused(shop.send("PATCH", f"{CONTROL_NODES}/n1/status", status, type=MERGE, user=N1))


def test_it_reads_the_plan_that_runs_and_writes_none(shop: SampleInstallation) -> None:
    plan = {**_TYPE, "kind": "Plan", "metadata": {"name": "autopilot"}, "spec": {"commands": []}}
    shop.send("POST", PLANS, plan).expect(201)
    shop.send("GET", f"{PLANS}/autopilot", user=N1).expect(200)
    shop.refused(shop.send("GET", PLANS, user=N1))
    shop.refused(shop.send("GET", f"{PLANS}/other", user=N1))
    patch: Json = {"spec": {"commands": []}}
    shop.refused(shop.send("PATCH", f"{PLANS}/autopilot", patch, type=MERGE, user=N1))
    shop.refused(shop.send("PATCH", f"{PLANS}/autopilot/status", {}, type=MERGE, user=N1))
