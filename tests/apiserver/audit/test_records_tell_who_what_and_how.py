"""What a record says, by what was seen and what the policy wants told."""

from __future__ import annotations

import gzip
import json

import pytest
from tests.apiserver.audit.scenes import ALICE, EVERYTHING, asked, record, sight

from pilothouse.apiserver.audit.audit_policy import (
    DEFAULT,
    PANIC,
    STARTED,
    AuditLevel,
    AuditPolicy,
    AuditRule,
)
from pilothouse.apiserver.audit.records import AuditRecorder
from pilothouse.apiserver.authorization.authorizer import AuthorizationDecision
from pilothouse.apiserver.server.messages import ANONYMOUS, Response, User

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web-0", "uid": "u1", "managedFields": [{"a": 1}]},
}
BODY = json.dumps(POD, indent=1).encode()


def test_a_write_under_a_lease_names_it() -> None:
    recorder = AuditRecorder(DEFAULT, "host-1")
    for fence in ("kube-system/m/1", "kube-system/m/2"):
        line = recorder.line(sight(asked("DELETE", headers={"Pilothouse-Fence": fence})))
        assert line is not None
        assert json.loads(line)["annotations"]["pilothouse.io/fence"] == fence
    line = recorder.line(sight(asked("DELETE")))
    assert line is not None
    assert "pilothouse.io/fence" not in json.loads(line)["annotations"]


def test_what_admission_has_to_say_is_in_the_record_of_its_request_alone() -> None:
    recorder = AuditRecorder(DEFAULT, "host-1")
    notes = []
    for more in (
        {"pod-security.kubernetes.io/exempt": "user"},
        {},
        {"pod-security.kubernetes.io/exempt": "namespace"},
    ):
        request = asked("POST", "/api/v1/namespaces/t/pods")
        request.verdict = AuthorizationDecision(True, "because")
        request.annotations.update(more)
        line = recorder.line(sight(request, status=201))
        assert line is not None
        notes.append(json.loads(line)["annotations"])
    assert [each.pop("pod-security.kubernetes.io/exempt", None) for each in notes] == [
        "user",
        None,
        "namespace",
    ]
    assert notes[0] == notes[1] == notes[2]
    assert notes[0]["authorization.k8s.io/reason"] == "because"


def test_a_read_is_told_in_full_but_for_its_content() -> None:
    request = asked(target="/api/v1/namespaces/t/pods/web-0/log?tail=3", headers={"User-Agent": "kubectl/1"})
    request.verdict = AuthorizationDecision(True, "because")

    assert record(DEFAULT, sight(request, Response(200, b"secret text"))) == {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "level": "Metadata",
        "auditID": "id-1",
        "stage": "ResponseComplete",
        "requestURI": "/api/v1/namespaces/t/pods/web-0/log?tail=3",
        "verb": "get",
        "user": {"username": "alice", "uid": "u-alice", "groups": ["dev", "system:authenticated"]},
        "sourceIPs": ["10.0.0.9"],
        "userAgent": "kubectl/1",
        "objectRef": {
            "resource": "pods",
            "namespace": "t",
            "name": "web-0",
            "apiVersion": "v1",
            "subresource": "log",
        },
        "responseStatus": {"metadata": {}, "code": 200},
        "requestReceivedTimestamp": "2023-11-14T22:13:20.000000Z",
        "stageTimestamp": "2023-11-14T22:13:20.250000Z",
        "annotations": {
            "authorization.k8s.io/decision": "allow",
            "authorization.k8s.io/reason": "because",
            "pilothouse.io/instance": "host-1",
        },
    }


@pytest.mark.parametrize(
    ("method", "target", "verb"),
    [
        ("GET", "/api/v1/pods", "list"),
        ("GET", "/api/v1/pods?watch=1", "watch"),
        ("GET", "/api/v1/pods?watch=false", "list"),
        ("HEAD", "/api/v1/namespaces/t/pods/a", "get"),
        ("DELETE", "/api/v1/namespaces/t/pods", "deletecollection"),
        ("PATCH", "/api/v1/namespaces/t/pods/a", "patch"),
        ("OPTIONS", "/api/v1/namespaces/t/pods/a", "options"),
        ("POST", "/nowhere", "post"),
    ],
)
def test_the_verb_is_the_one_that_was_authorized(method: str, target: str, verb: str) -> None:
    assert record(DEFAULT, sight(asked(method, target)))["verb"] == verb


def test_a_path_that_is_no_resource_has_no_object() -> None:
    assert "objectRef" not in record(DEFAULT, sight(asked(target="/apis")))


def test_a_created_object_is_known_by_the_name_and_uid_it_got() -> None:
    request = asked("POST", "/api/v1/namespaces/t/pods", body=b'{"metadata":{"generateName":"web-"}}')

    told = record(DEFAULT, sight(request, Response(201, BODY)))

    assert told["objectRef"] == {
        "resource": "pods",
        "namespace": "t",
        "name": "web-0",
        "uid": "u1",
        "apiVersion": "v1",
    }


def test_a_refused_creation_is_known_by_the_name_that_was_sent() -> None:
    request = asked("POST", "/api/v1/namespaces/t/pods", body=b'{"metadata":{"name":"web-7"}}')

    told = record(
        DEFAULT, sight(request, Response(422, b'{"kind":"Status","reason":"Invalid","message":"no"}'))
    )

    assert told["objectRef"]["name"] == "web-7"
    assert told["responseStatus"] == {
        "metadata": {},
        "status": "Failure",
        "reason": "Invalid",
        "message": "no",
        "code": 422,
    }


def test_an_update_says_which_version_it_was_made_against() -> None:
    body = b'{"metadata":{"name":"web-0","uid":"u1","resourceVersion":"12"}}'

    told = record(DEFAULT, sight(asked("PUT", body=body), Response(200, BODY)))

    assert told["objectRef"]["uid"] == "u1"
    assert told["objectRef"]["resourceVersion"] == "12"


def test_a_refusal_says_why_and_by_which_decision() -> None:
    request = asked()
    request.verdict = AuthorizationDecision(False, "no role")
    status = {"kind": "Status", "reason": "Forbidden", "message": "no", "details": {"kind": "pods"}}

    told = record(DEFAULT, sight(request, Response(403, json.dumps(status).encode())))

    assert told["responseStatus"]["details"] == {"kind": "pods"}
    assert told["annotations"]["authorization.k8s.io/decision"] == "forbid"
    assert told["annotations"]["authorization.k8s.io/reason"] == "no role"


def test_a_failed_authentication_is_nobody_s() -> None:
    request = asked(user=ANONYMOUS, headers={"Authorization": "Bearer s3cret"})

    told = record(
        EVERYTHING, sight(request, Response(401, b'{"reason":"Unauthorized","message":"Unauthorized"}'))
    )

    assert told["user"] == {}
    assert told["responseStatus"]["code"] == 401
    assert "s3cret" not in json.dumps(told)


def test_who_impersonates_whom_is_told_and_rules_look_at_the_one_who_does() -> None:
    request = asked(user=User("robot", groups=("bots",), extra={"scopes": ("a", "b")}))
    request.impersonator = ALICE
    policy = AuditPolicy((AuditRule(level=AuditLevel.METADATA, users=frozenset({"alice"})),))

    told = record(policy, sight(request))

    assert told["user"]["username"] == "alice"
    assert told["impersonatedUser"] == {
        "username": "robot",
        "groups": ["bots"],
        "extra": {"scopes": ["a", "b"]},
    }


def test_whom_proxies_speak_for_comes_before_who_is_connected() -> None:
    headers = {"X-Forwarded-For": "1.2.3.4, zork, ::1", "X-Real-Ip": "1.2.3.4"}

    assert record(DEFAULT, sight(asked(headers=headers)))["sourceIPs"] == ["1.2.3.4", "::1", "10.0.0.9"]


def test_levels_tell_bodies_on_one_line() -> None:
    request = asked("PUT", body=BODY, headers={"Content-Type": "application/json"})
    seen = sight(request, Response(200, BODY))

    metadata = record(DEFAULT, seen)
    sent = record(AuditPolicy((AuditRule(level=AuditLevel.REQUEST),)), seen)
    both = record(EVERYTHING, seen)

    assert "requestObject" not in metadata
    assert sent["requestObject"] == POD
    assert "responseObject" not in sent
    assert both["requestObject"] == both["responseObject"] == POD


def test_bodies_in_yaml_and_compressed_ones_are_told_too() -> None:
    request = asked(
        "PATCH", body=b"spec:\n  replicas: 3\n", headers={"Content-Type": "application/apply-patch+yaml"}
    )
    answer = Response(200, gzip.compress(BODY), headers=(("Content-Encoding", "gzip"),))

    told = record(EVERYTHING, sight(request, answer))

    assert told["requestObject"] == {"spec": {"replicas": 3}}
    assert told["responseObject"] == POD


def test_a_body_that_can_not_be_read_is_left_out() -> None:
    told = record(EVERYTHING, sight(asked("PUT", body=b"{nonsense"), Response(400, b"not json")))

    assert "requestObject" not in told
    assert "responseObject" not in told
    assert told["responseStatus"]["code"] == 400


def test_managed_fields_can_be_left_out_of_objects_and_lists() -> None:
    policy = AuditPolicy((AuditRule(level=AuditLevel.REQUEST_RESPONSE),), omit_managed_fields=True)
    listed = json.dumps({"kind": "PodList", "items": [POD, POD]}).encode()

    told = record(policy, sight(asked(target="/api/v1/pods"), Response(200, listed)))

    assert [item["metadata"] for item in told["responseObject"]["items"]] == [
        {"name": "web-0", "uid": "u1"}
    ] * 2


def test_stages_that_the_policy_omits_are_not_told() -> None:
    policy = AuditPolicy((AuditRule(level=AuditLevel.METADATA),), omit_stages=frozenset({STARTED}))
    recorder = AuditRecorder(policy, "host-1")

    assert recorder.line(sight(asked(target="/api/v1/pods?watch=1"), stage=STARTED)) is None
    assert recorder.line(sight(asked(target="/api/v1/pods?watch=1"))) is not None


def test_a_handler_that_broke_is_a_panic() -> None:
    assert record(DEFAULT, sight(asked(), status=500, stage=PANIC))["stage"] == "Panic"


@pytest.mark.parametrize(
    "odd", ['"quoted" \\ back', "\udcff\udc80 bytes", "naïve 🦀", "\x00\x1f", "x" * 5000]
)
def test_whatever_a_client_sends_a_record_is_one_line_of_json(odd: str) -> None:
    request = asked(target=f"/api/v1/namespaces/t/pods/{odd}", headers={"User-Agent": odd})

    told = record(DEFAULT, sight(request))

    assert told["verb"] == "get"
    assert len(told["userAgent"]) <= 1024 * 4 + 12
