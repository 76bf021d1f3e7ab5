from __future__ import annotations

import pytest
from tests.apiserver.authentication.conftest import ACCOUNT, POD, Bank

EXTRA = "authentication.kubernetes.io/"


def test_a_token_lasts_as_long_as_it_was_made_for(bank: Bank) -> None:
    token = bank.mint(expirationSeconds=600)
    bank.clock.advance(599)
    assert bank.user(token).name == "system:serviceaccount:t:robot"
    bank.clock.advance(1)
    assert bank.why_not(token) == "[invalid bearer token, service account token has expired]"


def test_a_token_is_not_good_before_its_time(bank: Bank) -> None:
    token = bank.mint()
    bank.clock.set(bank.clock.now() - 1)
    assert bank.why_not(token) == "[invalid bearer token, service account token is not valid yet]"


@pytest.mark.parametrize(
    ("seconds", "status"), [(599, 422), (600, 201), (1 << 32, 201), ((1 << 32) + 1, 422)]
)
def test_there_is_a_shortest_and_a_longest_time(bank: Bank, seconds: int, status: int) -> None:
    answer = bank.request(expirationSeconds=seconds)
    assert answer.status == status
    if status == 422:
        assert [each["field"] for each in answer.json["details"]["causes"]] == ["spec.expirationSeconds"]


def test_without_a_wish_a_token_is_for_an_hour_and_for_this_server(bank: Bank) -> None:
    made = bank.request().expect(201)
    assert made["spec"]["expirationSeconds"] == 3600
    assert made["spec"]["audiences"] == ["https://kubernetes.default.svc.cluster.local"]
    assert made["status"]["expirationTimestamp"] == "2023-11-14T23:13:20Z"


def test_a_token_ends_with_its_account(bank: Bank) -> None:
    token = bank.mint()
    bank.delete(ACCOUNT)
    assert 'serviceaccounts "robot" not found' in bank.why_not(token)


def test_an_account_made_again_is_another(bank: Bank) -> None:
    token = bank.mint()
    bank.delete(ACCOUNT)
    bank.make_account()
    assert 'serviceaccounts "robot" is another one now' in bank.why_not(token)
    assert bank.user(bank.mint()).name == "system:serviceaccount:t:robot"


def test_a_token_ends_with_its_pod(bank: Bank) -> None:
    pod = bank.make_pod()
    token = bank.bound("Pod", "p")
    extra = bank.user(token).extra
    assert extra[f"{EXTRA}pod-name"] == ("p",)
    assert extra[f"{EXTRA}pod-uid"] == (pod["metadata"]["uid"],)
    bank.delete(POD)
    assert 'pods "p" not found' in bank.why_not(token)
    bank.make_pod()
    assert 'pods "p" is another one now' in bank.why_not(token)


def test_a_pod_that_is_going_keeps_its_token_until_a_minute_after_it_should_be_gone(bank: Bank) -> None:
    bank.make_pod(nodeName="n", terminationGracePeriodSeconds=30)
    token = bank.bound("Pod", "p")
    bank.server.send("DELETE", POD).expect(200)
    bank.server.settle()
    bank.clock.advance(30 + 60)
    assert bank.user(token).name == "system:serviceaccount:t:robot"
    bank.clock.advance(1)
    assert bank.why_not(token) == "[invalid bearer token, service account token has been invalidated]"


def test_a_token_says_where_its_pod_is(bank: Bank) -> None:
    bank.make_pod(nodeName="n")
    node = bank.server.send("GET", "/api/v1/nodes/n").expect(200)
    token = bank.bound("Pod", "p")
    assert bank.user(token).extra[f"{EXTRA}node-name"] == ("n",)
    assert bank.user(token).extra[f"{EXTRA}node-uid"] == (node["metadata"]["uid"],)
    # It is bound to the pod alone.
    bank.delete("/api/v1/nodes/n")
    assert bank.user(token).extra[f"{EXTRA}node-name"] == ("n",)


def test_of_a_node_that_nobody_registered_only_the_name_is_told(bank: Bank) -> None:
    bank.make_pod(nodeName="elsewhere")
    extra = bank.user(bank.bound("Pod", "p")).extra
    assert extra[f"{EXTRA}node-name"] == ("elsewhere",)
    assert f"{EXTRA}node-uid" not in extra


@pytest.mark.parametrize(
    ("kind", "name", "path"),
    [("Secret", "s", "/api/v1/namespaces/t/secrets/s"), ("Node", "n", "/api/v1/nodes/n")],
)
def test_a_token_ends_with_what_else_it_is_bound_to(bank: Bank, kind: str, name: str, path: str) -> None:
    token = bank.bound(kind, name)
    assert bank.user(token).name == "system:serviceaccount:t:robot"
    bank.delete(path)
    assert f'"{name}" not found' in bank.why_not(token)


def test_a_credential_is_known_by_its_number(bank: Bank) -> None:
    first, second = (bank.user(bank.mint()).extra[f"{EXTRA}credential-id"][0] for _ in range(2))
    assert first.startswith("JTI=")
    assert first != second


@pytest.mark.parametrize(
    ("bound", "status", "words"),
    [
        ({"kind": "Pod", "name": "absent"}, 404, 'pods "absent" not found'),
        (
            {"kind": "Secret", "name": "s", "uid": "other"},
            409,
            "the UID in the bound object reference (other)",
        ),
        ({"kind": "ConfigMap", "name": "s"}, 400, "cannot bind token to object of type v1, Kind=ConfigMap"),
        ({"kind": "Pod", "apiVersion": "apps/v1", "name": "s"}, 400, "object of type apps/v1, Kind=Pod"),
        ({"kind": "Pod"}, 422, "spec.boundObjectRef.name"),
        ({"kind": "Pod", "name": 1}, 422, "spec.boundObjectRef"),
        (["Pod"], 422, "spec.boundObjectRef"),
    ],
)
def test_a_token_can_not_be_bound_to_just_anything(
    bank: Bank, bound: object, status: int, words: str
) -> None:
    answer = bank.request(boundObjectRef=bound)
    assert answer.status == status
    assert words in answer.message


def test_a_token_is_not_bound_to_the_pod_of_another_account(bank: Bank) -> None:
    bank.make_pod(serviceAccountName="default")
    answer = bank.request(boundObjectRef={"kind": "Pod", "name": "p"})
    assert (answer.status, "different serviceaccount name" in answer.message) == (400, True)


def test_a_request_that_names_another_account_is_refused(bank: Bank) -> None:
    body = {"metadata": {"name": "somebody"}, "spec": {}}
    answer = bank.server.send("POST", f"{ACCOUNT}/token", body)
    assert answer.status == 422
    assert "must match the service account name" in answer.message
