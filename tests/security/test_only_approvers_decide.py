"""Whether an action may be done is decided by who has the verb ``approve`` on its rule, and by nobody else."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.kit.core import ADMIN, Answered, CoreServer
from tests.kit.rbac_objects import bind, cluster_role, place, rule

from pilothouse.apiserver.server.messages import User

GROUP = "autopilot.libopenstorage.org"
APPROVALS = f"/apis/{GROUP}/v1alpha1/namespaces/shop/actionapprovals"
MERGE = "application/merge-patch+json"
ENGINE = User("pilothouse:controller-manager")
USERS = {
    "editor": bind("shop", "editor", "ClusterRole/edit", "User/editor"),
    "administrator": bind("shop", "administrator", "ClusterRole/admin", "User/administrator"),
    "approver": bind("shop", "approver", "ClusterRole/pilothouse:approver", "User/approver"),
    "elsewhere": bind("default", "elsewhere", "ClusterRole/pilothouse:approver", "User/elsewhere"),
    "everywhere": bind("", "everywhere", "ClusterRole/pilothouse:approver", "User/everywhere"),
    "of-grow": bind("", "of-grow", "ClusterRole/of-grow", "User/of-grow", "User/editor-of-grow"),
    "editor-of-grow": bind("shop", "editor-of-grow", "ClusterRole/edit", "User/editor-of-grow"),
    "of-shrink": bind("", "of-shrink", "ClusterRole/of-shrink", "User/of-shrink"),
}
ROLES = [
    cluster_role(
        f"of-{name}",
        rule("approve", "autopilotrules", GROUP, names=name),
        rule("get patch update", "actionapprovals", GROUP),
    )
    for name in ("grow", "shrink")
]


@pytest.fixture(scope="module")
def server() -> Iterator[CoreServer]:
    with CoreServer() as running:
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}
        running.send("POST", "/api/v1/namespaces", namespace).expect(201)
        for obj in (*ROLES, *USERS.values()):
            running.send("POST", place(obj), obj).expect(201)
        yield running


@pytest.fixture
def asked(server: CoreServer) -> Iterator[str]:
    """The path of a question that the engine asks for the rule ``grow``."""
    server.send("POST", APPROVALS, approval(), user=ENGINE).expect(201)
    at = f"{APPROVALS}/grow-data"
    status = {"status": {"Rule": {"Name": "grow"}, "target": {"to": "480Mi"}}}
    server.send("PATCH", f"{at}/status", status, type=MERGE, user=ENGINE).expect(200)
    yield at
    server.send("DELETE", at, user=ADMIN).expect(200)


def approval(name: str = "grow-data", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": f"{GROUP}/v1alpha1",
        "kind": "ActionApproval",
        "metadata": {"name": name},
        "spec": {"actions": [{"name": "openstorage.io.action.volume/resize"}], **spec},
    }


def decide(server: CoreServer, at: str, state: str, who: str) -> Answered:
    return server.send("PATCH", at, {"spec": {"approvalState": state}}, type=MERGE, user=User(who))


@pytest.mark.parametrize("state", ["approved", "declined"])
@pytest.mark.parametrize("who", ["editor", "administrator", "elsewhere", "of-shrink"])
def test_the_right_to_write_approvals_is_not_enough(
    server: CoreServer, asked: str, who: str, state: str
) -> None:
    answer = decide(server, asked, state, who)
    answer.expect(403)
    if who != "elsewhere":
        assert answer.message.endswith(
            f"spec.approvalState: {state}: needs the verb approve on autopilotrules.{GROUP} grow"
        )
    stored = server.send("GET", asked).expect(200)
    assert stored["spec"]["approvalState"] == "pending"
    assert "decidedBy" not in stored["status"]


@pytest.mark.parametrize("state", ["approved", "declined"])
@pytest.mark.parametrize("who", ["approver", "everywhere", "of-grow", "editor-of-grow"])
def test_who_has_the_verb_decides_and_is_recorded(
    server: CoreServer, asked: str, who: str, state: str
) -> None:
    decided = decide(server, asked, state, who).expect(200)
    assert decided["spec"]["approvalState"] == state
    assert decided["status"]["decidedBy"] == who
    assert decided["status"]["decidedAt"]
    assert decided["status"]["target"] == {"to": "480Mi"}


def test_apply_and_put_are_judged_alike(server: CoreServer, asked: str) -> None:
    obj = server.send("GET", asked).expect(200)
    obj["spec"]["approvalState"] = "approved"
    obj["status"]["decidedBy"] = "somebody"
    server.send("PUT", asked, obj, user=User("editor")).expect(403)
    applied = {**approval(approvalState="approved")}
    apply, query = "application/apply-patch+yaml", "fieldManager=k&force=true"
    server.send("PATCH", asked, applied, type=apply, query=query, user=User("editor")).expect(403)
    stored = server.send("PUT", asked, obj, user=User("approver")).expect(200)
    assert stored["status"]["decidedBy"] == "approver"


def test_nobody_writes_in_whose_name_it_was_decided(server: CoreServer, asked: str) -> None:
    decide(server, asked, "approved", "approver").expect(200)
    forged = {"status": {"decidedBy": "admin", "decidedAt": None, "trigger": 3}}
    status = server.send("PATCH", f"{asked}/status", forged, type=MERGE, user=ENGINE).expect(200)["status"]
    assert (status["decidedBy"], status["trigger"]) == ("approver", 3)
    assert status["decidedAt"]
    server.send("PATCH", f"{asked}/status", forged, type=MERGE, user=User("approver")).expect(403)


@pytest.mark.parametrize("state", ["approved", "declined", "canceled"])
def test_no_approval_is_made_beforehand(server: CoreServer, state: str) -> None:
    made = approval("made-before", approvalState=state)
    server.send("POST", APPROVALS, made, user=User("editor")).expect(403)
    server.send("POST", APPROVALS, made, user=ENGINE).expect(403)
    server.send("POST", APPROVALS, approval("made-before"), user=User("editor")).expect(403)


def test_the_engine_cancels_and_asks_anew_but_does_not_decide(server: CoreServer, asked: str) -> None:
    decide(server, asked, "approved", ENGINE.name).expect(403)
    decide(server, asked, "declined", ENGINE.name).expect(403)
    decide(server, asked, "approved", "approver").expect(200)
    decide(server, asked, "canceled", "editor").expect(403)
    anew = decide(server, asked, "pending", ENGINE.name).expect(200)
    assert "decidedBy" not in anew["status"]
    assert anew["status"]["target"] == {"to": "480Mi"}
    decide(server, asked, "canceled", ENGINE.name).expect(200)


def test_what_is_asked_for_is_not_changed_by_others(server: CoreServer, asked: str) -> None:
    changes: list[dict[str, Any]] = [{"expiresAfter": 9}, {"actions": []}]
    for change in changes:
        answer = server.send("PATCH", asked, {"spec": change}, type=MERGE, user=User("editor"))
        answer.expect(403)
    label = {"metadata": {"labels": {"seen": "yes"}}}
    server.send("PATCH", asked, label, type=MERGE, user=User("editor")).expect(200)


@pytest.mark.parametrize("plural", ["autopilotruleobjects", "applicationactions"])
def test_records_are_not_written_by_people(server: CoreServer, plural: str) -> None:
    for who in ("editor", "administrator", "approver"):
        path = f"/apis/{GROUP}/v1alpha1/namespaces/shop/{plural}"
        kind = {"autopilotruleobjects": "AutopilotRuleObject", "applicationactions": "ApplicationAction"}
        obj = {"apiVersion": f"{GROUP}/v1alpha1", "kind": kind[plural], "metadata": {"name": "x"}, "spec": {}}
        server.send("POST", path, obj, user=User(who)).expect(403)
        server.send("DELETE", f"{path}/x", user=User(who)).expect(403)
