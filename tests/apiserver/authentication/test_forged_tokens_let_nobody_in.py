"""Tokens as an attacker would make them. Each is a 401, and nothing else."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from tests.apiserver.authentication.conftest import Bank

from pilothouse.meta.errors import StatusError
from pilothouse.pki.jwt import SigningKey


def encoded(part: object) -> str:
    data = part if isinstance(part, bytes) else json.dumps(part).encode()
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def decoded(part: str) -> Any:
    return json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))


def refused(bank: Bank, token: str) -> None:
    with pytest.raises(StatusError) as problem:
        bank.user(token)
    assert problem.value.code == 401
    assert "authenticated" not in bank.review(token)


@pytest.fixture
def parts(bank: Bank) -> tuple[str, str, str]:
    """A good token in its three parts."""
    head, body, signature = bank.mint().split(".")
    return head, body, signature


@pytest.mark.parametrize(
    "algorithm", ["none", "None", "NONE", "HS256", "RS256", "ES384", "", None, ["ES256"]]
)
def test_an_algorithm_that_is_not_ours(bank: Bank, parts: tuple[str, str, str], algorithm: object) -> None:
    head = {**decoded(parts[0]), "alg": algorithm}
    for signature in ("", parts[2]):
        refused(bank, f"{encoded(head)}.{parts[1]}.{signature}")


def test_a_key_that_is_not_ours_under_our_name(bank: Bank, parts: tuple[str, str, str]) -> None:
    thief = SigningKey.generate()
    forged = thief.sign(decoded(parts[1]))
    refused(bank, forged)
    # The thief says that the key is ours.
    head = {**decoded(forged.split(".")[0]), "kid": bank.server.signing_key.kid}
    refused(bank, ".".join([encoded(head), *forged.split(".")[1:]]))


@pytest.mark.parametrize(
    "change",
    [
        {"sub": "system:serviceaccount:kube-system:admin"},
        {"exp": 99999999999},
        {"aud": ["https://kubernetes.default.svc.cluster.local", "vault"]},
    ],
)
def test_claims_that_were_changed(bank: Bank, parts: tuple[str, str, str], change: dict[str, Any]) -> None:
    refused(bank, f"{parts[0]}.{encoded({**decoded(parts[1]), **change})}.{parts[2]}")


@pytest.mark.parametrize("lacking", ["iss", "sub", "aud", "exp", "nbf", "jti", "kubernetes.io"])
def test_a_signed_token_that_lacks_something(bank: Bank, parts: tuple[str, str, str], lacking: str) -> None:
    claims = decoded(parts[1])
    del claims[lacking]
    refused(bank, bank.server.signing_key.sign(claims))


def test_a_signed_token_of_another_issuer(bank: Bank, parts: tuple[str, str, str]) -> None:
    claims = {**decoded(parts[1]), "iss": "https://elsewhere.example.com"}
    refused(bank, bank.server.signing_key.sign(claims))


@pytest.mark.parametrize(
    "token",
    [
        "..",
        ".",
        "a.b.c",
        "a.b.c.d",
        "é.é.é",
        "\udcff.a.b",
        f"{encoded(b'[' * 6000)}.e30.e30",
        f"{encoded(b'[1]')}.e30.e30",
        f"{encoded(b'null')}.e30.e30",
        f"{'A' * 60_000}.e30.e30",
        f"e30.{'A' * 60_000}.",
        "x" * 60_000,
    ],
    ids=range(12),
)
def test_what_is_no_token(bank: Bank, token: str) -> None:
    with pytest.raises(StatusError) as problem:
        bank.user(token)
    assert problem.value.code == 401


def test_a_cut_or_stretched_token(bank: Bank, parts: tuple[str, str, str]) -> None:
    head, body, signature = parts
    for forged in (
        f"{head}.{body}",
        f"{head}.{body}.",
        f"{head}.{body}.{signature[:-2]}",
        f"{head}.{body}.{signature}AA",
        f"{head}.{body}.{signature}.{signature}",
        f"{head}..{signature}",
        f".{body}.{signature}",
        f"{head}.{body}.{encoded(bytes(64))}",
    ):
        refused(bank, forged)
