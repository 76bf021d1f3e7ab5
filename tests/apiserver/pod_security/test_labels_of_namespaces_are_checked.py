"""Labels that mean nothing are refused; tightening a policy warns about pods that would not be allowed any more."""

from __future__ import annotations

import json

from tests.apiserver.pod_security.scenes import PREFIX, RESTRICTED, Plane, labels, pod
from tests.kit.core import CoreServer

from pilothouse.api.pod_security.policy import BASELINE, LevelVersion, NamespacePolicy
from pilothouse.apiserver.admission.pod_security.configuration import Exemptions, PodSecurityConfiguration
from pilothouse.apiserver.admission.pod_security.existing_pods import existing_violations
from pilothouse.apiserver.server.messages import User
from pilothouse.apiserver.storage.items import Item
from pilothouse.base.clock import ManualClock


def test_a_level_that_does_not_exist_is_refused(plane: Plane) -> None:
    answer = plane.namespace("t", enforce="strict", warn_version="1.24")
    assert answer.status == 422
    assert answer.message == (
        f'Namespace "t" is invalid: [metadata.labels[{PREFIX}enforce]: Invalid value: "strict": must be one of '
        f'privileged, baseline, restricted, metadata.labels[{PREFIX}warn-version]: Invalid value: "1.24": must be '
        '"latest" or "v1.x"]'
    )
    plane.namespace("t").expect(201)
    assert plane.label("t", audit="none").status == 422


def test_tightening_warns_about_the_pods_there_are(plane: Plane) -> None:
    plane.namespace("t", enforce="privileged")
    for name in ("c", "b", "d"):
        plane.create("t", pod(name, RESTRICTED, hostNetwork=True)).expect(201)
    plane.create("t", pod("fine", RESTRICTED)).expect(201)
    plane.create("t", pod("bare")).expect(201)
    answer = plane.label("t", "dryRun=All", enforce="baseline")
    assert (answer.status, answer.warnings) == (
        200,
        [
            'existing pods in namespace "t" violate the new PodSecurity enforce level "baseline:latest"',
            "b (and 2 other pods): host namespaces",
        ],
    )
    # It was a rehearsal.
    plane.create("t", pod("e", hostNetwork=True)).expect(201)
    answer = plane.label("t", enforce="restricted")
    assert answer.warnings[1:] == [
        "b (and 2 other pods): host namespaces",
        "bare: allowPrivilegeEscalation != false, unrestricted capabilities, runAsNonRoot != true, seccompProfile",
        "e: host namespaces, allowPrivilegeEscalation != false, unrestricted capabilities, runAsNonRoot != true, "
        "seccompProfile",
    ]


def test_loosening_and_other_labels_are_no_news(plane: Plane) -> None:
    plane.namespace("t", enforce="privileged")
    plane.create("t", pod("a", hostNetwork=True)).expect(201)
    assert plane.label("t", enforce="restricted").warnings
    assert plane.label("t", enforce="baseline").warnings == []
    assert plane.label("t", warn="restricted").warnings == []
    assert plane.label("t", enforce="privileged").warnings == []


def stored(count: int) -> list[Item]:
    """Pods as a cache has them: the first three are of one set."""
    items = []
    for number in range(count):
        obj = pod(f"p{number:04}", hostNetwork=number != 1)
        if number < 3:
            obj["metadata"]["ownerReferences"] = [{"uid": "7", "controller": True}]
        items.append(Item(f"/registry/pods/t/{obj['metadata']['name']}", 1, json.dumps(obj).encode()))
    return items


async def test_no_more_pods_are_looked_at_than_is_good_for_others() -> None:
    clock = ManualClock()
    warnings = await existing_violations(stored(3010), "t", LevelVersion(BASELINE), frozenset(), clock)
    assert warnings == [
        "new PodSecurity enforce level only checked against the first 3000 of 3010 existing pods",
        'existing pods in namespace "t" violate the new PodSecurity enforce level "baseline:latest"',
        "p0000 (and 2999 other pods): host namespaces",
    ]


async def test_one_pod_of_each_set_is_looked_at_first_for_as_long_as_there_is_time() -> None:
    class Hurrying(ManualClock):
        """0.3 s pass whenever somebody looks."""

        def monotonic(self) -> float:
            self.advance(0.3)
            return super().monotonic()

    warnings = await existing_violations(stored(10), "t", LevelVersion(BASELINE), frozenset(), Hurrying())
    # p0001, of the same set as p0000, would have been allowed.
    assert warnings == [
        "new PodSecurity enforce level only checked against the first 4 of 10 existing pods",
        'existing pods in namespace "t" violate the new PodSecurity enforce level "baseline:latest"',
        "p0000 (and 3 other pods): host namespaces",
    ]


def test_labels_in_a_namespace_that_is_exempt_do_nothing_and_say_so() -> None:
    baseline = LevelVersion(BASELINE)
    configuration = PodSecurityConfiguration(
        NamespacePolicy(enforce=baseline), Exemptions(namespaces=frozenset({"kube-system"}))
    )
    with CoreServer(pod_security=configuration) as server:
        plane = Plane(server)
        answer = plane.label("kube-system", enforce="restricted", warn="baseline")
        assert answer.warnings == [
            'namespace "kube-system" is exempt from Pod Security, and the policy '
            "(enforce=restricted:latest, warn=baseline:latest) will be ignored"
        ]
        plane.account("kube-system")
        plane.create("kube-system", pod("a", hostNetwork=True)).expect(201)


def test_who_may_edit_a_namespace_can_not_label_it(plane: Plane) -> None:
    """The attack: a user with `edit`, or even `admin`, makes its namespace privileged, then has the machine."""
    plane.namespace("t", enforce="baseline")
    for role in ("edit", "admin"):
        binding = {
            "metadata": {"name": role},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": [{"kind": "User", "name": role, "apiGroup": "rbac.authorization.k8s.io"}],
        }
        path = "/apis/rbac.authorization.k8s.io/v1/namespaces/t/rolebindings"
        plane.server.send("POST", path, binding).expect(201)
        user = User(role, groups=("system:authenticated",))
        assert plane.create("t", pod(f"{role}-fine"), user=user).status == 201
        namespace = "/api/v1/namespaces/t"
        patch = {"metadata": {"labels": labels(enforce="privileged")}}
        live = plane.server.send("GET", namespace, user=user).expect(200)
        live["metadata"]["labels"][f"{PREFIX}enforce"] = "privileged"
        for answer in (
            plane.merge(namespace, patch, user=user),
            plane.merge(f"{namespace}/status", patch, user=user),
            plane.server.send("PUT", namespace, live, user=user),
            plane.server.send("PUT", f"{namespace}/finalize", live, user=user),
            plane.server.send("DELETE", namespace, user=user),
            plane.server.send("POST", "/api/v1/namespaces", {"metadata": {"name": "mine"}}, user=user),
            plane.server.send(
                "PATCH",
                namespace,
                {"apiVersion": "v1", "kind": "Namespace", **patch},
                type="application/apply-patch+yaml",
                query="fieldManager=m&force=true",
                user=user,
            ),
        ):
            assert answer.status == 403, answer.body
        assert plane.create("t", pod("bad", hostNetwork=True), user=user).status == 403
    labelled = plane.server.send("GET", "/api/v1/namespaces/t").expect(200)["metadata"]["labels"]
    assert labelled[f"{PREFIX}enforce"] == "baseline"


def test_finalize_and_status_change_no_labels(plane: Plane) -> None:
    """Nor does whoever may write only these, such as a controller of namespaces."""
    plane.namespace("t", enforce="baseline")
    live = plane.server.send("GET", "/api/v1/namespaces/t").expect(200)
    live["metadata"]["labels"][f"{PREFIX}enforce"] = "privileged"
    for part in ("finalize", "status"):
        plane.server.send("PUT", f"/api/v1/namespaces/t/{part}", live).expect(200)
        assert plane.create("t", pod("a", hostNetwork=True)).status == 403
