from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.apiserver.authorization.following import Following, plainly_allowed
from tests.apiserver.authorization.generating import World
from tests.kit.rbac_objects import bind, cluster_role, role, rule

from pilothouse.apiserver.authorization.authorizer import Attributes
from pilothouse.apiserver.server.messages import User

ALICE = User("alice", groups=("dev",))


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32))
def test_whatever_comes_and_goes_a_remembered_decision_is_a_fresh_one(seed: int) -> None:
    source = random.Random(seed)
    world = World(source, ["t", "u"])
    following = Following()
    questions = [world.question() for _ in range(40)]
    for obj in world.objects(roles=8, bindings=8):
        following.put(obj)
        if following.objects and source.random() < 0.3:
            following.drop(source.choice(list(following.objects)))
        afresh = Following()
        afresh.put(*following.objects.values())
        for user, asked in questions:
            remembered = following.rbac.decide(user, asked)
            assert remembered == following.rbac.decide(user, asked) == afresh.rbac.decide(user, asked)
            assert remembered.allowed == plainly_allowed(following.objects.values(), user, asked)


def test_one_memory_serves_every_name() -> None:
    following = Following()
    following.put(
        role("t", "named", rule("get", "pods", names="a b")), bind("t", "n", "Role/named", "User/alice")
    )
    answers = {
        name: following.rbac.decide(ALICE, Attributes("get", resource="pods", namespace="t", name=name))
        for name in ("", "a", "b", "c")
    }
    assert {name: answer.allowed for name, answer in answers.items()} == {
        "": False,
        "a": True,
        "b": True,
        "c": False,
    }


def test_a_change_is_felt_by_the_next_decision() -> None:
    following = Following()
    asked = Attributes("get", resource="nodes")
    granted = bind("", "b", "ClusterRole/r", "Group/dev")
    following.put(cluster_role("r", rule("get", "nodes")), granted)
    assert following.rbac.decide(ALICE, asked).reason == (
        'RBAC: allowed by ClusterRoleBinding "b" of ClusterRole "r" to Group "dev"'
    )
    following.put(cluster_role("r", rule("list", "nodes")))
    assert not following.rbac.decide(ALICE, asked).allowed
    following.put(cluster_role("r", rule("get", "nodes")))
    assert following.rbac.decide(ALICE, asked).allowed
    following.drop(following.key(granted))
    assert not following.rbac.decide(ALICE, asked).allowed


def test_a_binding_whose_subjects_change_forgets_the_old_ones() -> None:
    following = Following()
    asked = Attributes("get", resource="nodes")
    following.put(cluster_role("r", rule("get", "nodes")), bind("", "b", "ClusterRole/r", "User/alice"))
    following.put(bind("", "b", "ClusterRole/r", "User/bob"))
    assert not following.rbac.decide(ALICE, asked).allowed
    assert following.rbac.decide(User("bob"), asked).allowed


def test_missing_roles_are_named_each_once() -> None:
    following = Following()
    following.put(
        bind("", "one", "ClusterRole/gone", "User/alice"),
        bind("", "two", "ClusterRole/gone", "Group/dev"),
        bind("t", "three", "Role/lost", "User/alice"),
    )
    decision = following.rbac.decide(ALICE, Attributes("get", resource="pods", namespace="t"))
    assert decision.reason == (
        'RBAC: [clusterrole.rbac.authorization.k8s.io "gone" not found, '
        'role.rbac.authorization.k8s.io "lost" not found]'
    )


def test_questions_of_any_size_are_answered_and_do_not_pile_up() -> None:
    following = Following()
    following.put(cluster_role("r", rule("*", "*")), bind("", "b", "ClusterRole/r", "User/alice"))
    long = "x" * 100_000
    for number in range(50):
        asked = Attributes("get", resource=f"{long}{number}")
        assert following.rbac.decide(ALICE, asked).allowed
        crowd = User("alice", groups=("",) * 5_000)
        assert following.rbac.decide(crowd, asked).allowed
    assert following.rbac.remembered == 0
