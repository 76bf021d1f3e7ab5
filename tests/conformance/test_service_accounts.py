"""A pod's service account and its token, on this server and on Kubernetes."""

from __future__ import annotations

from typing import Any

import pytest
from tests.kit.http import Http

pytestmark = pytest.mark.conformance

PLACE = "/var/run/secrets/kubernetes.io/serviceaccount"


async def account(http: Http, ns: str, name: str, **said: Any) -> None:
    (
        await http.post(f"/api/v1/namespaces/{ns}/serviceaccounts", {"metadata": {"name": name}, **said})
    ).expect(201)


def pod(name: str, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"containers": [{"name": "main", "image": "x:1"}], **spec}}


async def test_a_pod_gets_its_accounts_token_and_pull_secrets(http: Http, ns: str) -> None:
    await account(http, ns, "robot", imagePullSecrets=[{"name": "registry"}])
    sent = pod("p", serviceAccountName="robot", initContainers=[{"name": "first", "image": "x:1"}])

    spec = (await http.post(f"/api/v1/namespaces/{ns}/pods", sent)).expect(201)["spec"]

    assert (spec["serviceAccountName"], spec["serviceAccount"]) == ("robot", "robot")
    assert spec["imagePullSecrets"] == [{"name": "registry"}]
    (volume,) = spec["volumes"]
    place = {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
    assert volume["name"].startswith("kube-api-access-")
    assert volume["projected"] == {
        "sources": [
            {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {"downwardAPI": {"items": [place]}},
        ],
        "defaultMode": 420,
    }
    for container in (*spec["initContainers"], *spec["containers"]):
        assert container["volumeMounts"] == [{"name": volume["name"], "readOnly": True, "mountPath": PLACE}]


async def test_an_account_that_is_not_there_is_refused(http: Http, ns: str) -> None:
    answer = await http.post(f"/api/v1/namespaces/{ns}/pods", pod("p", serviceAccountName="robot"))

    assert (answer.status, answer.reason) == (403, "Forbidden")
    assert answer.message == (
        f'pods "p" is forbidden: error looking up service account {ns}/robot: serviceaccount "robot" not found'
    )


@pytest.mark.parametrize(
    ("of_account", "of_pod", "volumes"), [(False, None, 0), (False, True, 1), (True, False, 0)]
)
async def test_a_token_is_left_out_where_it_is_not_wanted(
    http: Http, ns: str, of_account: bool, of_pod: bool | None, volumes: int
) -> None:
    await account(http, ns, "robot", automountServiceAccountToken=of_account)
    more = {} if of_pod is None else {"automountServiceAccountToken": of_pod}

    spec = (
        await http.post(f"/api/v1/namespaces/{ns}/pods", pod("p", serviceAccountName="robot", **more))
    ).expect(201)["spec"]

    assert len(spec.get("volumes") or []) == volumes
