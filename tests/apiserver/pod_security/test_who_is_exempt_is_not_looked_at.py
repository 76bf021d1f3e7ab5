"""Exemptions by user, namespace and runtime class; and what is recorded and counted of each decision."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.apiserver.pod_security.scenes import PREFIX, RESTRICTED, Plane, pod
from tests.kit.core import ADMIN, CoreServer

from pilothouse.api.pod_security.policy import BASELINE, LevelVersion, NamespacePolicy
from pilothouse.api.pod_security.policy import RESTRICTED as STRICT
from pilothouse.apiserver.admission.pod_security.configuration import Exemptions, PodSecurityConfiguration
from pilothouse.apiserver.authorization.authorizer import MASTERS
from pilothouse.apiserver.server.messages import User

SHARING = pod("sharing", hostNetwork=True)
OPERATOR = User("operator", groups=(MASTERS,))


@pytest.fixture
def plane() -> Iterator[Plane]:
    defaults = NamespacePolicy(LevelVersion(BASELINE), LevelVersion(STRICT), LevelVersion(STRICT))
    exemptions = Exemptions(frozenset({"operator"}), frozenset({"kube-system"}), frozenset({"sandbox"}))
    with CoreServer(pod_security=PodSecurityConfiguration(defaults, exemptions)) as server:
        plane = Plane(server)
        plane.account("kube-system")
        plane.account("default")
        yield plane


def counted(plane: Plane, family: str) -> dict[tuple[str, ...], float]:
    """The samples of a family, by the values of their labels."""
    text = "".join(plane.server.core.pod_security.counts.families())
    found = {each.name: each for each in text_string_to_metric_families(text)}
    samples = found[f"pod_security_{family}"].samples if f"pod_security_{family}" in found else []
    return {tuple(sample.labels.values()): sample.value for sample in samples}


def test_a_namespace_without_labels_has_the_defaults(plane: Plane) -> None:
    assert plane.create("default", SHARING).status == 403
    admitted = plane.create("default", pod("a"))
    admitted.expect(201)
    assert admitted.warnings[0].startswith('would violate PodSecurity "restricted:latest": ')


def test_a_label_replaces_the_default_of_its_mode_alone(plane: Plane) -> None:
    plane.namespace("t", enforce="privileged")
    admitted = plane.create("t", SHARING)
    admitted.expect(201)
    assert admitted.warnings[0].startswith('would violate PodSecurity "restricted:latest": host namespaces')


def test_a_namespace_can_be_exempt(plane: Plane) -> None:
    answer = plane.create("kube-system", SHARING)
    assert (answer.status, answer.warnings) == (201, [])
    assert answer.annotations == {f"{PREFIX}exempt": "namespace"}
    assert plane.stateful_set("kube-system", "s", SHARING).warnings == []
    assert counted(plane, "exemptions") == {("create", "pod", ""): 1, ("create", "controller", ""): 1}


def test_a_user_can_be_exempt_and_only_as_that_user(plane: Plane) -> None:
    answer = plane.create("default", SHARING, user=OPERATOR)
    assert (answer.status, answer.warnings) == (201, [])
    assert answer.annotations == {f"{PREFIX}exempt": "user"}
    assert plane.create("default", pod("b", hostNetwork=True), user=ADMIN).status == 403
    # Who acts as somebody else is that somebody.
    headers = {"Impersonate-User": "somebody", "Impersonate-Group": MASTERS}
    again = plane.create("default", pod("b", hostNetwork=True), user=OPERATOR, headers=headers)
    assert again.status == 403


def test_a_runtime_class_can_be_exempt(plane: Plane) -> None:
    answer = plane.create("default", pod("a", hostNetwork=True, runtimeClassName="sandbox"))
    # No node of ours has other runtimes, which is another matter.
    assert "PodSecurity" not in answer.message
    assert answer.annotations == {f"{PREFIX}exempt": "runtimeClass"}
    other = plane.create("default", pod("a", hostNetwork=True, runtimeClassName="other"))
    assert "violates PodSecurity" in other.message


def test_refusals_and_violations_are_recorded(plane: Plane) -> None:
    refused = plane.create("default", SHARING)
    assert refused.annotations[f"{PREFIX}enforce-policy"] == "baseline:latest"
    would = 'would violate PodSecurity "restricted:latest": host namespaces (hostNetwork=true), '
    assert refused.annotations[f"{PREFIX}audit-violations"].startswith(would)
    fine = plane.create("default", pod("a", RESTRICTED))
    assert fine.annotations == {f"{PREFIX}enforce-policy": "baseline:latest"}


def test_decisions_are_counted(plane: Plane) -> None:
    plane.create("default", SHARING)
    plane.create("default", pod("a", RESTRICTED)).expect(201)
    plane.create("default", pod("b")).expect(201)
    plane.stateful_set("default", "s", SHARING).expect(201)
    plane.namespace("future", enforce="baseline", enforce_version="v1.99", warn="privileged")
    plane.create("future", pod("c", RESTRICTED)).expect(201)
    created = ("create", "pod", "")
    assert counted(plane, "evaluations") == {
        ("deny", "baseline", "latest", "enforce", *created): 1,
        ("allow", "baseline", "latest", "enforce", *created): 2,
        ("allow", "baseline", "future", "enforce", *created): 1,
        ("deny", "restricted", "latest", "audit", *created): 2,
        ("deny", "restricted", "latest", "warn", *created): 1,
        ("deny", "restricted", "latest", "audit", "create", "controller", ""): 1,
        ("deny", "restricted", "latest", "warn", "create", "controller", ""): 1,
    }
    assert counted(plane, "errors") == {}
