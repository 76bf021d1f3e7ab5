from __future__ import annotations

from typing import Any

import pytest
from tests.kit.core import Answered, CoreServer

PODS = "/api/v1/namespaces/default/pods"
ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
PLACE = "/var/run/secrets/kubernetes.io/serviceaccount"
Json = dict[str, Any]


def create(core: CoreServer, name: str, query: str = "", **spec: Any) -> Answered:
    spec = {"containers": [{"name": "main", "image": "x:1"}], **spec}
    return core.send("POST", PODS, {"metadata": {"name": name}, "spec": spec}, query=query)


@pytest.fixture
def core() -> Any:
    with CoreServer() as server:
        yield server


def test_a_pod_that_names_none_runs_as_default_which_is_made_for_it(core: CoreServer) -> None:
    assert core.send("GET", f"{ACCOUNTS}/default").status == 404
    spec = create(core, "a").expect(201)["spec"]
    assert (spec["serviceAccountName"], spec["serviceAccount"]) == ("default", "default")
    made = core.send("GET", f"{ACCOUNTS}/default").expect(200)
    create(core, "b").expect(201)
    assert core.send("GET", f"{ACCOUNTS}/default").expect(200) == made


def test_a_dry_run_makes_no_account(core: CoreServer) -> None:
    revision = core.revision
    assert create(core, "a", "dryRun=All").expect(201)["spec"]["serviceAccountName"] == "default"
    assert core.revision == revision


def test_an_account_that_is_not_there_is_refused(core: CoreServer) -> None:
    answer = create(core, "a", serviceAccountName="robot")
    assert (answer.status, answer.json["reason"]) == (403, "Forbidden")
    assert answer.message == (
        'pods "a" is forbidden: error looking up service account default/robot: serviceaccount "robot" not found'
    )


def test_each_container_finds_a_token_where_it_is_looked_for(core: CoreServer) -> None:
    init = [{"name": "first", "image": "x:1"}]
    spec = create(core, "a", initContainers=init).expect(201)["spec"]
    (volume,) = spec["volumes"]
    assert volume["name"].startswith("kube-api-access-")
    assert volume["projected"] == {
        "defaultMode": 420,
        "sources": [
            {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {
                "downwardAPI": {
                    "items": [
                        {
                            "path": "namespace",
                            "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"},
                        }
                    ]
                }
            },
        ],
    }
    mount = {"name": volume["name"], "readOnly": True, "mountPath": PLACE}
    for container in (*spec["initContainers"], *spec["containers"]):
        assert container["volumeMounts"] == [mount]


def test_a_container_that_has_something_there_keeps_it(core: CoreServer) -> None:
    mounts = [{"name": "own", "mountPath": PLACE}]
    containers = [{"name": "main", "image": "x:1", "volumeMounts": mounts}, {"name": "side", "image": "x:1"}]
    volumes = [{"name": "own", "emptyDir": {}}]
    spec = create(core, "a", containers=containers, volumes=volumes).expect(201)["spec"]
    assert [mount["name"] for mount in spec["containers"][0]["volumeMounts"]] == ["own"]
    assert len(spec["containers"][1]["volumeMounts"]) == 1
    assert len(spec["volumes"]) == 2
    only = create(core, "b", containers=containers[:1], volumes=volumes).expect(201)["spec"]
    assert [volume["name"] for volume in only["volumes"]] == ["own"]


@pytest.mark.parametrize(
    ("account", "pod", "mounted"),
    [
        (None, None, True),
        (False, None, False),
        (False, True, True),
        (True, False, False),
        (None, False, False),
    ],
)
def test_pod_and_account_may_do_without(
    core: CoreServer, account: bool | None, pod: bool | None, mounted: bool
) -> None:
    said: Json = {"metadata": {"name": "robot"}}
    if account is not None:
        said["automountServiceAccountToken"] = account
    core.send("POST", ACCOUNTS, said).expect(201)
    more: Json = {} if pod is None else {"automountServiceAccountToken": pod}
    spec = create(core, "a", serviceAccountName="robot", **more).expect(201)["spec"]
    assert bool(spec.get("volumes")) is mounted


def test_the_accounts_pull_secrets_are_the_pods_unless_it_has_its_own(core: CoreServer) -> None:
    said = {"metadata": {"name": "robot"}, "imagePullSecrets": [{"name": "registry"}]}
    core.send("POST", ACCOUNTS, said).expect(201)
    spec = create(core, "a", serviceAccountName="robot").expect(201)["spec"]
    assert spec["imagePullSecrets"] == [{"name": "registry"}]
    own = [{"name": "mine"}]
    spec = create(core, "b", serviceAccountName="robot", imagePullSecrets=own).expect(201)["spec"]
    assert spec["imagePullSecrets"] == own


def test_a_pod_can_be_written_again_as_it_was_read(core: CoreServer) -> None:
    create(core, "a").expect(201)
    pod = core.send("GET", f"{PODS}/a").expect(200)
    assert (
        core.send("PUT", f"{PODS}/a", pod).expect(200)["metadata"]["resourceVersion"]
        == (pod["metadata"]["resourceVersion"])
    )
