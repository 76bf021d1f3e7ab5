"""Which rule of a policy decides, and what it decides."""

from __future__ import annotations

import pytest
from tests.apiserver.audit.scenes import ALICE

from pilothouse.apiserver.audit.audit_policy import DEFAULT, AuditLevel, AuditPolicy, AuditRule, ResourceMatch
from pilothouse.apiserver.audit.policy_file import read_policy
from pilothouse.apiserver.endpoints.request_info import locate
from pilothouse.apiserver.server.messages import User

POD = "/api/v1/namespaces/t/pods/web-0"
SCALE = "/apis/apps/v1/namespaces/t/statefulsets/db/scale"
NODE = "/api/v1/nodes/n1"


def level(policy: AuditPolicy, verb: str, path: str, user: User = ALICE) -> AuditLevel:
    return policy.treatment(user, verb, locate(path), path).level


@pytest.mark.parametrize(
    ("rule", "verb", "path", "matches"),
    [
        ("{}", "get", POD, True),
        ("{}", "get", "/healthz", True),
        ("{users: [alice]}", "get", POD, True),
        ("{users: [bob]}", "get", POD, False),
        ("{userGroups: [ops, dev]}", "get", POD, True),
        ("{userGroups: [ops]}", "get", POD, False),
        ("{verbs: [get, list]}", "get", POD, True),
        ("{verbs: [list]}", "get", POD, False),
        ("{resources: [{group: ''}]}", "get", POD, True),
        ("{resources: [{group: apps}]}", "get", POD, False),
        ("{resources: [{group: '', resources: [pods]}]}", "get", POD, True),
        ("{resources: [{group: '', resources: [pods]}]}", "get", POD + "/log", False),
        ("{resources: [{group: '', resources: [pods/log]}]}", "get", POD + "/log", True),
        ("{resources: [{group: '', resources: [pods/log]}]}", "get", POD, False),
        ("{resources: [{group: '', resources: ['pods/*']}]}", "get", POD + "/log", True),
        ("{resources: [{group: '', resources: ['pods/*']}]}", "get", POD, True),
        ("{resources: [{group: apps, resources: ['*/scale']}]}", "update", SCALE, True),
        ("{resources: [{group: apps, resources: ['*/status']}]}", "update", SCALE, False),
        ("{resources: [{group: apps, resources: ['*']}]}", "update", SCALE, True),
        ("{resources: [{group: '', resources: [pods], resourceNames: [web-0]}]}", "get", POD, True),
        ("{resources: [{group: '', resources: [pods], resourceNames: [web-1]}]}", "get", POD, False),
        ("{resources: [{group: ''}]}", "get", "/healthz", False),
        ("{namespaces: [t]}", "get", POD, True),
        ("{namespaces: [u]}", "get", POD, False),
        ("{namespaces: ['']}", "get", NODE, True),
        ("{namespaces: ['']}", "get", POD, False),
        ("{namespaces: ['']}", "get", "/healthz", False),
        ("{nonResourceURLs: [/healthz]}", "get", "/healthz", True),
        ("{nonResourceURLs: [/healthz]}", "get", "/healthz/store", False),
        ("{nonResourceURLs: ['/healthz*']}", "get", "/healthz/store", True),
        ("{nonResourceURLs: ['*']}", "get", "/anything", True),
        ("{nonResourceURLs: ['*']}", "get", POD, False),
        ("{users: [alice], verbs: [get], namespaces: [u]}", "get", POD, False),
    ],
)
def test_a_rule_matches_what_all_of_its_parts_match(rule: str, verb: str, path: str, matches: bool) -> None:
    body = rule.strip("{}")
    text = f"apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{{level: Metadata{', ' + body if body else ''}}}]\n"

    found = level(read_policy(text, "policy.yaml"), verb, path)

    assert found is (AuditLevel.METADATA if matches else AuditLevel.NONE)


def test_the_first_rule_that_matches_decides() -> None:
    pods = (ResourceMatch("", frozenset({"pods"})),)
    policy = AuditPolicy(
        (
            AuditRule(level=AuditLevel.NONE, users=frozenset({"robot"})),
            AuditRule(level=AuditLevel.REQUEST, resources=pods),
            AuditRule(level=AuditLevel.METADATA),
        )
    )

    assert level(policy, "get", POD, User("robot")) is AuditLevel.NONE
    assert level(policy, "get", POD) is AuditLevel.REQUEST
    assert level(policy, "get", NODE) is AuditLevel.METADATA


def test_what_no_rule_matches_is_not_recorded() -> None:
    assert (
        level(AuditPolicy((AuditRule(level=AuditLevel.METADATA, verbs=frozenset({"delete"})),)), "get", POD)
        is AuditLevel.NONE
    )


def test_a_rule_adds_to_the_stages_and_overrides_the_fields_that_the_policy_omits() -> None:
    text = """
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
omitManagedFields: true
rules:
- {level: Metadata, verbs: [watch], omitStages: [ResponseStarted], omitManagedFields: false}
- {level: Metadata}
"""
    policy = read_policy(text, "policy.yaml")

    watching = policy.treatment(ALICE, "watch", locate("/api/v1/pods"), "/api/v1/pods")
    reading = policy.treatment(ALICE, "get", locate(POD), POD)

    assert watching.omit_stages == {"RequestReceived", "ResponseStarted"}
    assert not watching.omit_managed_fields
    assert reading.omit_stages == {"RequestReceived"}
    assert reading.omit_managed_fields


@pytest.mark.parametrize(
    ("verb", "path", "wanted"),
    [
        ("get", POD, AuditLevel.METADATA),
        ("create", "/api/v1/namespaces/t/secrets", AuditLevel.METADATA),
        ("get", "/readyz", AuditLevel.NONE),
        ("get", "/livez/ping", AuditLevel.NONE),
        ("get", "/version", AuditLevel.NONE),
        ("get", "/apis", AuditLevel.METADATA),
        ("update", "/apis/coordination.k8s.io/v1/namespaces/t/leases/l", AuditLevel.NONE),
        ("delete", "/apis/coordination.k8s.io/v1/namespaces/t/leases/l", AuditLevel.METADATA),
        ("create", "/apis/coordination.k8s.io/v1/namespaces/t/leases", AuditLevel.METADATA),
    ],
)
def test_without_a_policy_all_is_told_but_health_and_the_renewing_of_leases(
    verb: str, path: str, wanted: AuditLevel
) -> None:
    assert level(DEFAULT, verb, path) is wanted
