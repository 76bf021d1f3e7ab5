from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.apiserver.authorization.following import plainly_allowed
from tests.apiserver.authorization.generating import World
from tests.kit.rbac_objects import bind, cluster_role, paths, rule

from pilothouse.apiserver.authorization.rbac.coverage import atoms, describe, missing
from pilothouse.apiserver.authorization.rbac.rules import PolicyRule
from pilothouse.apiserver.server.messages import User

READ = PolicyRule.read(rule("get list", "pods pods/status"))


@pytest.mark.parametrize(
    ("held", "wanted", "lacking"),
    [
        ([rule("*", "*", "*")], [rule("get", "pods")], ""),
        ([rule("get", "*/status", "*")], [rule("get", "pods/status")], ""),
        ([rule("get", "pods")], [rule("get", "pods", names="a")], ""),
        ([rule("get", "pods"), rule("list", "pods")], [rule("get list", "pods")], ""),
        ([paths("get", "/x/*")], [paths("get", "/x/y /x/*")], ""),
        ([], [rule("get list", "pods")], '{APIGroups:[""], Resources:["pods"], Verbs:["get" "list"]}'),
        (
            [rule("get", "pods", names="a")],
            [rule("get", "pods", names="a b")],
            '{APIGroups:[""], Resources:["pods"], ResourceNames:["b"], Verbs:["get"]}',
        ),
        (
            [rule("get", "pods", names="a")],
            [rule("get", "pods")],
            '{APIGroups:[""], Resources:["pods"], Verbs:["get"]}',
        ),
        (
            [rule("get", "pods")],
            [rule("get", "pods/status")],
            '{APIGroups:[""], Resources:["pods/status"], Verbs:["get"]}',
        ),
        (
            [rule("get list watch create update patch delete", "pods")],
            [rule("*", "pods")],
            '{APIGroups:[""], Resources:["pods"], Verbs:["*"]}',
        ),
        ([paths("get", "/x/y")], [paths("get", "/x/*")], '{NonResourceURLs:["/x/*"], Verbs:["get"]}'),
        (
            [rule("*", "*", "*")],
            [paths("get post", "/x")],
            '{NonResourceURLs:["/x"], Verbs:["get"]}\n{NonResourceURLs:["/x"], Verbs:["post"]}',
        ),
    ],
)
def test_what_is_lacking_is_told(
    held: list[dict[str, Any]], wanted: list[dict[str, Any]], lacking: str
) -> None:
    found = missing([PolicyRule.read(each) for each in held], [PolicyRule.read(each) for each in wanted])
    assert describe(found) == lacking


def test_a_rule_is_the_sum_of_its_atoms() -> None:
    assert len(list(atoms(READ))) == 4
    assert not missing(list(atoms(READ)), [READ])
    assert not missing([READ], list(atoms(READ)))


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32))
def test_whoever_holds_all_of_it_may_do_all_of_it(seed: int) -> None:
    world = World(random.Random(seed), ["t"])
    held = [PolicyRule.read(each) for each in world.rules(paths=True)]
    pieces = [atom for each in world.rules(paths=True) for atom in atoms(PolicyRule.read(each))]
    lacking = missing(held, pieces)
    covered = [atom.write() for atom in pieces if atom not in lacking]
    user = User("alice")
    binding = bind("", "b", "ClusterRole/r", "User/alice")
    for _ in range(60):
        _, asked = world.question()
        if plainly_allowed([cluster_role("r", *covered), binding], user, asked):
            assert plainly_allowed(
                [cluster_role("r", *(each.write() for each in held)), binding], user, asked
            )
