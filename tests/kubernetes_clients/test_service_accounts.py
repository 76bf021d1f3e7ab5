"""A service account's token lets its bearer in, for as long as what it is bound to exists."""

from __future__ import annotations

import dataclasses

import pytest
from tests.kit.databases import Databases
from tests.kit.http import Http, Json
from tests.kit.waiting import eventually

WHOAMI = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
REVIEW: Json = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}


async def minted(dbs: Databases, http: Http, **spec: object) -> Json:
    core = f"/api/v1/namespaces/{dbs.namespace}"
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}}
    assert (await http.post(f"{core}/serviceaccounts", account)).status in (201, 409)
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    return (await http.post(f"{core}/serviceaccounts/robot/token", request)).expect(201)


async def whoami(http: Http, token: str) -> tuple[int, Json]:
    access = dataclasses.replace(http.target.access, cert=None, key=None, token=token)
    async with Http.to(dataclasses.replace(http.target, access=access)) as bearer:
        answer = await bearer.post(WHOAMI, REVIEW)
    return answer.status, answer.json.get("status", {}).get("userInfo", {}) if answer.status == 201 else {}


async def test_a_minted_token_names_its_account(dbs: Databases, http: Http) -> None:
    token = (await minted(dbs, http))["status"]["token"]
    status, user = await whoami(http, token)
    assert status == 201
    assert user["username"] == f"system:serviceaccount:{dbs.namespace}:robot"
    assert {"system:serviceaccounts", f"system:serviceaccounts:{dbs.namespace}"} <= set(user["groups"])


async def test_a_token_ends_with_its_account(dbs: Databases, http: Http) -> None:
    token = (await minted(dbs, http))["status"]["token"]
    assert (await whoami(http, token))[0] == 201
    (await http.delete(f"/api/v1/namespaces/{dbs.namespace}/serviceaccounts/robot")).expect(200)

    async def refused() -> bool:
        return (await whoami(http, token))[0] == 401

    await eventually(refused)  # Kubernetes remembers a good token for ten seconds


@pytest.mark.parametrize("seconds", [1, 599])
async def test_a_token_lives_at_least_ten_minutes(dbs: Databases, http: Http, seconds: int) -> None:
    await minted(dbs, http)
    request = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": seconds},
    }
    answer = await http.post(f"/api/v1/namespaces/{dbs.namespace}/serviceaccounts/robot/token", request)
    assert answer.status == 422
    assert [cause.field for cause in answer.causes] == ["spec.expirationSeconds"]


async def test_a_token_for_another_audience_is_not_for_us(dbs: Databases, http: Http) -> None:
    token = (await minted(dbs, http, audiences=["vault"]))["status"]["token"]
    assert (await whoami(http, token))[0] == 401
