"""What docs/networking.md says of a real Kubernetes: with the role of kube-proxy, our nodes read what they follow."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.kit.http import Http
from tests.kit.kube import KubeServer
from tests.kit.rbac_objects import SUBJECT_ACCESS
from tests.kit.waiting import eventually

pytestmark = pytest.mark.long

BINDINGS = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
FOLLOWED = (("", "services"), ("discovery.k8s.io", "endpointslices"), ("", "nodes"))


@pytest.fixture
async def kube(tmp_path: Path) -> AsyncIterator[Http]:
    server = KubeServer(tmp_path, flags=("--authorization-mode=Node",))
    try:
        async with Http.to(server.target) as http:
            yield http
    finally:
        server.close()


async def allowed(kube: Http, group: str, plural: str, verb: str) -> bool:
    asked = {"verb": verb, "group": group, "version": "v1", "resource": plural}
    who = {"user": "system:node:m1", "groups": ["system:nodes", "system:authenticated"]}
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview"}
    answer = await kube.post(SUBJECT_ACCESS, {**body, "spec": {**who, "resourceAttributes": asked}})
    return bool(answer.expect(201)["status"]["allowed"])


async def test_the_role_of_kube_proxy_is_all_that_it_takes(kube: Http) -> None:
    async def all_allowed() -> bool:
        return all(
            [
                await allowed(kube, group, plural, verb)
                for group, plural in FOLLOWED
                for verb in ("list", "watch")
            ]
        )

    assert not await all_allowed()
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:node-proxier"}
    nodes = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:nodes"}
    body = {"metadata": {"name": "pilothouse-nodes"}, "roleRef": role, "subjects": [nodes]}
    (await kube.post(BINDINGS, body)).expect(201)
    await eventually(all_allowed)
