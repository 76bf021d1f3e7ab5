from __future__ import annotations

from tests.apiserver.authentication.conftest import Bank

HERE = "https://kubernetes.default.svc.cluster.local"


def test_a_review_tells_whose_a_token_is_and_for_whom(bank: Bank) -> None:
    status = bank.review(bank.mint())
    assert status["authenticated"] is True
    assert status["audiences"] == [HERE]
    user = status["user"]
    assert user["username"] == "system:serviceaccount:t:robot"
    assert user["groups"] == ["system:serviceaccounts", "system:serviceaccounts:t", "system:authenticated"]
    assert user["extra"]["authentication.kubernetes.io/credential-id"][0].startswith("JTI=")


def test_a_token_for_somebody_else_does_not_let_in_here(bank: Bank) -> None:
    token = bank.mint(audiences=["vault"])
    assert bank.why_not(token) == (
        f'[invalid bearer token, token audiences ["vault"] is invalid for the target audiences ["{HERE}"]]'
    )


def test_somebody_else_can_ask_whether_a_token_is_for_them(bank: Bank) -> None:
    token = bank.mint(audiences=["vault", "db"])
    assert bank.review(token, "vault")["audiences"] == ["vault"]
    assert bank.review(token, "other", "db", "vault")["audiences"] == ["vault", "db"]
    assert bank.review(token, "other") == {
        "user": {},
        "error": '[invalid bearer token, token audiences ["vault" "db"] is invalid for the target audiences ["other"]]',
    }


def test_a_token_for_this_server_is_not_for_others(bank: Bank) -> None:
    assert "authenticated" not in bank.review(bank.mint(), "vault")


def test_a_review_needs_a_token(bank: Bank) -> None:
    answer = bank.server.send("POST", "/apis/authentication.k8s.io/v1/tokenreviews", {"spec": {}})
    assert answer.status == 422
    assert [each["field"] for each in answer.json["details"]["causes"]] == ["spec.token"]


def test_a_token_that_nobody_knows_has_no_user(bank: Bank) -> None:
    assert bank.review("wrong") == {"user": {}, "error": "invalid bearer token"}
