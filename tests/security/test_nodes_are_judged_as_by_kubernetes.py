"""The same nodes, pods and questions, put to ours and to a kube-apiserver with Node authorization and NodeRestriction."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from tests.kit.http import Http, Json
from tests.kit.kube import KubeServer
from tests.kit.pilothouse_server import PilothouseServer
from tests.kit.rbac_objects import SUBJECT_ACCESS
from tests.kit.waiting import eventually

pytestmark = pytest.mark.long

VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")
NAMED = (
    ("nodes", "n1"),
    ("nodes", "n2"),
    ("pods", "p1"),
    ("pods", "p2"),
    ("secrets", "s1"),
    ("secrets", "s2"),
    ("secrets", "nobodys"),
    ("configmaps", "c1"),
    ("configmaps", "nobodys"),
    ("persistentvolumeclaims", "d1"),
    ("persistentvolumes", "v1"),
    ("serviceaccounts", "a1"),
    ("services", "any"),
    ("namespaces", "default"),
    ("events", "any"),
)
SUBRESOURCES = (
    ("nodes", "status", "n1"),
    ("nodes", "status", "n2"),
    ("pods", "status", "p1"),
    ("pods", "status", "p2"),
    ("pods", "eviction", "p1"),
    ("pods", "binding", "p1"),
    ("serviceaccounts", "token", "a1"),
    ("serviceaccounts", "token", "a2"),
    ("persistentvolumeclaims", "status", "d1"),
)
STRICTER = {
    *((verb, plural, name) for plural, name in (("nodes", "n2"), ("pods", "p2")) for verb in VERBS[3:7]),
    ("create", "pods", "p1"),
}
"""Where Kubernetes' authorizer says yes, and leaves it to NodeRestriction to refuse; and pods, which nodes don't make here."""
WIDER = {
    ("get", "serviceaccounts", "a1"),
    *((verb, "nodes", name) for verb in VERBS[:3] for name in ("n1", "n2")),
    *((verb, "persistentvolumeclaims", "d1") for verb in VERBS[1:3]),
    *((verb, "persistentvolumes", "v1") for verb in VERBS[1:4]),
}
"""Where it says no and we say yes: the account of a pod names the secrets that its images are pulled with; and our node agent
does what kube-proxy does, so it reads the nodes that it routes to, and what a storage driver does, so it follows claims and makes volumes."""
CLUSTERWIDE = ("nodes", "persistentvolumes", "namespaces")


@pytest.fixture(scope="module")
def targets(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Any]]:
    folder = tmp_path_factory.mktemp("nodes")
    flags = ("--authorization-mode=Node", "--enable-admission-plugins=NodeRestriction")
    with contextlib.ExitStack() as stack:
        ours = PilothouseServer(folder / "ours", "memory")
        stack.callback(ours.close)
        theirs = KubeServer(folder / "kube", flags=flags)
        stack.callback(theirs.close)
        yield [ours.target, theirs.target]


@pytest.fixture
async def both(targets: list[Any]) -> AsyncIterator[tuple[Http, Http]]:
    async with Http.to(targets[0]) as ours, Http.to(targets[1]) as theirs:
        for http in (ours, theirs):
            await furnish(http)
        yield ours, theirs


async def furnish(http: Http) -> None:
    """Node n1 runs p1, which refers to what ends in 1; n2 runs p2."""

    async def make(plural: str, name: str, **content: Any) -> None:
        await http.post(path(plural), {"metadata": {"name": name}, **content})

    for index in ("1", "2"):
        await make("nodes", f"n{index}")
        await make("serviceaccounts", f"a{index}")
        for plural in ("secrets", "configmaps"):
            await make(plural, f"{plural[0]}{index}")
            await make(plural, "nobodys")
        modes = {"accessModes": ["ReadWriteOnce"]}
        size = {"storage": "1Gi"}
        await make("persistentvolumeclaims", f"d{index}", spec={**modes, "resources": {"requests": size}})
        claim = {"namespace": "default", "name": f"d{index}"}
        volume = {**modes, "capacity": size, "hostPath": {"path": "/x"}, "claimRef": claim}
        await make("persistentvolumes", f"v{index}", spec=volume)
        spec = {
            "nodeName": f"n{index}",
            "serviceAccountName": f"a{index}",
            "containers": [{"name": "main", "image": "x:1"}],
            "volumes": [
                {"name": "s", "secret": {"secretName": f"s{index}"}},
                {"name": "c", "configMap": {"name": f"c{index}"}},
                {"name": "d", "persistentVolumeClaim": {"claimName": f"d{index}"}},
            ],
        }
        await make("pods", f"p{index}", spec=spec)

    async def related() -> bool:
        return await allowed(http, "get", "persistentvolumes", "v1")

    await eventually(related)


def path(plural: str, name: str = "", sub: str = "") -> str:
    inside = "" if plural in CLUSTERWIDE else "/namespaces/default"
    return "/".join(filter(None, [f"/api/v1{inside}", plural, name, sub]))


async def allowed(http: Http, verb: str, plural: str, name: str, sub: str = "", **more: Any) -> bool:
    asked: Json = {
        "verb": verb,
        "version": "v1",
        "resource": plural,
        "subresource": sub,
        "name": name,
        **more,
    }
    if plural not in CLUSTERWIDE:
        asked["namespace"] = "default"
    who = {"user": "system:node:n1", "groups": ["system:nodes", "system:authenticated"]}
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview"}
    answer = await http.post(SUBJECT_ACCESS, {**body, "spec": {**who, "resourceAttributes": asked}})
    return bool(answer.expect(201)["status"]["allowed"])


async def test_the_same_is_in_scope(both: tuple[Http, Http]) -> None:
    ours, theirs = both
    different = {}
    yes = 0
    questions = [(verb, plural, name, "") for plural, name in NAMED for verb in VERBS]
    questions += [(verb, plural, name, sub) for plural, sub, name in SUBRESOURCES for verb in VERBS]
    for verb, plural, name, sub in questions:
        here, there = [await allowed(http, verb, plural, name, sub) for http in (ours, theirs)]
        yes += here
        if here != there and (verb, plural, name) not in (STRICTER if there else WIDER):
            different[verb, plural, name, sub] = f"here {here}, there {there}"
    assert not different, "\n".join(f"{asked}: {said}" for asked, said in different.items())
    assert yes > 30


@pytest.mark.parametrize("selector", ["", "spec.nodeName=n1", "spec.nodeName=n2", "spec.nodeName!=n2"])
async def test_lists_of_pods_are_confined_alike(both: tuple[Http, Http], selector: str) -> None:
    more: dict[str, Any] = {"fieldSelector": {"rawSelector": selector}} if selector else {}
    answers = [await allowed(http, "list", "pods", "", **more) for http in both]
    assert answers == [selector == "spec.nodeName=n1"] * 2


@pytest.mark.parametrize(
    ("patch", "status"),
    [
        ({"metadata": {"labels": {"example.io/rack": "7"}}}, 200),
        ({"metadata": {"labels": {"kubernetes.io/hostname": "n1"}}}, 200),
        ({"metadata": {"labels": {"node.kubernetes.io/kind": "x"}}}, 200),
        ({"metadata": {"labels": {"kubelet.kubernetes.io/kind": "x"}}}, 200),
        ({"metadata": {"labels": {"topology.kubernetes.io/zone": "z"}}}, 200),
        ({"metadata": {"labels": {"node-restriction.kubernetes.io/a": "b"}}}, 403),
        ({"metadata": {"labels": {"x.node-restriction.kubernetes.io/a": "b"}}}, 403),
        ({"metadata": {"labels": {"node-role.kubernetes.io/worker": ""}}}, 403),
        ({"metadata": {"labels": {"a.k8s.io/b": "c"}}}, 403),
        ({"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}}, 403),
        ({"spec": {"unschedulable": True}}, 200),
    ],
)
async def test_a_node_changes_itself_alike(both: tuple[Http, Http], patch: Json, status: int) -> None:
    me = {"Impersonate-User": "system:node:n1", "Impersonate-Group": "system:nodes"}
    found = [
        (
            await http.send(
                "PATCH", path("nodes", "n1"), patch, type="application/merge-patch+json", headers=me
            )
        ).status
        for http in both
    ]
    assert found == [status, status]


@pytest.mark.parametrize(
    ("account", "pod", "uid", "audiences", "status"),
    [
        ("a1", "p1", True, [], 201),
        ("a1", "p1", False, [], 403),
        ("a1", "p2", True, [], 403),
        ("a1", "", True, [], 403),
        ("a1", "p1", True, ["vault"], 403),
        ("a2", "p2", True, [], 403),
    ],
)
async def test_a_node_has_tokens_alike(
    both: tuple[Http, Http], account: str, pod: str, uid: bool, audiences: list[str], status: int
) -> None:
    me = {"Impersonate-User": "system:node:n1", "Impersonate-Group": "system:nodes"}
    found = []
    for http in both:
        spec: Json = {"audiences": audiences, "expirationSeconds": 600}
        if pod:
            real = (await http.get(path("pods", pod))).expect(200)["metadata"]["uid"]
            spec["boundObjectRef"] = {"kind": "Pod", "apiVersion": "v1", "name": pod}
            if uid:
                spec["boundObjectRef"]["uid"] = real
        answer = await http.send(
            "POST", path("serviceaccounts", account, "token"), {"spec": spec}, headers=me
        )
        found.append(answer.status)
    assert found == [status, status]
