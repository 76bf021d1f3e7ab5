"""The same roles, bindings and questions, put to ours and to a real kube-apiserver: the same answers.

Each world is small, so that questions and rules often meet, and has names of its own, so that all of them fit on one
server. Whoever writes or lists rules does so as one of the world's users, by impersonation.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Awaitable, Iterator
from typing import Any, TypeVar

import pytest
from multidict import CIMultiDict
from tests.apiserver.authorization.generating import World
from tests.kit import kube
from tests.kit.http import Http, Json
from tests.kit.rbac_objects import (
    ACCESS,
    API,
    GROUP,
    SUBJECT_ACCESS,
    access_review,
    bind,
    cluster_role,
    place,
    role,
    rule,
)
from tests.kit.run_report import Tell
from tests.kit.targets import Fleet
from tests.kit.waiting import eventually

from pilothouse.api.registry import resources
from pilothouse.apiserver.authorization.authorizer import Attributes
from pilothouse.apiserver.authorization.rbac import default_roles
from pilothouse.apiserver.authorization.rbac.coverage import atoms, describe, missing
from pilothouse.apiserver.authorization.rbac.rules import PolicyRule, read_rules
from pilothouse.apiserver.discovery.catalog import KindCatalog
from pilothouse.apiserver.server.messages import User

pytestmark = pytest.mark.long

WORLDS = 40 if os.environ.get("PILOTHOUSE_SOAK") else 5
QUESTIONS, WRITES, LISTINGS = 500, 60, 15
ROLES, BINDINGS = 25, 30
AT_ONCE = 24
T = TypeVar("T")


async def test_ours_answers_as_kubernetes_does(fleet: Fleet, tell: Tell) -> None:
    async with Http.to(fleet.get("memory").target) as ours, Http.to(fleet.get(kube.NAME).target) as theirs:
        answered = allowed = 0
        outcomes: set[int] = set()
        for seed in range(WORLDS):
            both = Both(ours, theirs, seed)
            await both.settle()
            verdicts = await both.ask_each()
            outcomes |= await both.write_each()
            await both.list_each()
            answered += len(verdicts)
            allowed += sum(verdicts)
        assert answered >= 2000
        # Neither a world where everything is allowed nor one where nothing is would show much.
        assert 0.1 < allowed / answered < 0.9
        assert outcomes >= {201, 403, 404}
        tell(
            f"{answered} questions, {WORLDS * WRITES} writes and {WORLDS * LISTINGS} listings of rights, about "
            f"{WORLDS * ROLES} roles and {WORLDS * BINDINGS} bindings: the same answers as a kube-apiserver's"
        )


async def test_ours_aggregates_as_kubernetes_does(
    fleet: Fleet, tmp_path_factory: pytest.TempPathFactory
) -> None:
    theirs = fleet.get(kube.NAME).target
    with kube.controller_manager(
        theirs, tmp_path_factory.mktemp("aggregating"), controllers=("clusterrole-aggregation-controller",)
    ):
        async with Http.to(fleet.get("memory").target) as mine, Http.to(theirs) as other:
            objects = list(_aggregates(random.Random(7)))
            for client in (mine, other):
                await _create(client, objects)
            for obj in objects:
                at = f"{place(obj)}/{obj['metadata']['name']}"

                async def agree(at: str = at) -> bool:
                    found = [
                        (await client.get(at)).expect(200).get("rules") or [] for client in (mine, other)
                    ]
                    return found[0] == found[1]

                await eventually(agree, seconds=20)


async def test_the_roles_of_kubernetes_have_its_rules(fleet: Fleet) -> None:
    served = _served()
    async with Http.to(fleet.get(kube.NAME).target) as theirs:
        for plural, declared in (
            ("clusterroles", default_roles.cluster_roles()),
            ("roles", default_roles.roles()),
        ):
            listed = (await theirs.get(f"{API}/{plural}")).expect(200)["items"]
            known = {each["metadata"]["name"]: each for each in listed}
            for each in declared:
                name = each["metadata"]["name"]
                if name.startswith("pilothouse:") or "aggregationRule" in each:
                    continue
                ours, real = read_rules(each), read_rules(known[name])
                assert describe(missing(real, ours)) == "", f"{name} grants more than Kubernetes'"
                wanted = [atom for rule in real for atom in atoms(rule) if _concerns(atom, served)]
                assert describe(missing(ours, wanted)) == "", f"{name} grants less than Kubernetes'"
                assert each["metadata"]["labels"] == known[name]["metadata"]["labels"]


async def test_the_bindings_of_kubernetes_have_its_subjects(fleet: Fleet) -> None:
    async with Http.to(fleet.get(kube.NAME).target) as theirs:
        listed = (await theirs.get(f"{API}/clusterrolebindings")).expect(200)["items"]
    known = {each["metadata"]["name"]: each for each in listed}
    for each in default_roles.cluster_bindings():
        name = each["metadata"]["name"]
        if not name.startswith("pilothouse:"):
            real = known[name]
            assert (each["roleRef"], each.get("subjects")) == (real["roleRef"], real.get("subjects")), name


class Both:
    """One world on both servers."""

    def __init__(self, ours: Http, theirs: Http, seed: int) -> None:
        self._clients = (ours, theirs)
        self._tag = f"w{seed}-"
        self._namespaces = [f"{self._tag}{name}" for name in ("t", "u")]
        self._world = World(random.Random(seed), self._namespaces, self._tag)

    async def settle(self) -> None:
        """Everything is written, and counts on both servers."""
        writer = cluster_role(
            f"{self._tag}writer", rule("create", "roles rolebindings clusterroles clusterrolebindings", GROUP)
        )
        everyone = bind(
            "", f"{self._tag}writer", f"ClusterRole/{self._tag}writer", "Group/system:authenticated"
        )
        objects = self._world.objects(roles=ROLES, bindings=BINDINGS)
        # The last of each kind to be written: when these count, the others do.
        objects += [writer, everyone]
        for namespace in self._namespaces:
            objects += [
                role(namespace, f"{self._tag}last", rule("last", "last")),
                bind(namespace, f"{self._tag}last", f"Role/{self._tag}last", "User/last"),
            ]
        spaces = [
            {"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": n}} for n in self._namespaces
        ]
        for client in self._clients:
            for space in spaces:
                (await client.post("/api/v1/namespaces", space)).expect(201)
            await _create(client, objects)

            async def counts(client: Http = client) -> bool:
                asked = [access_review("last", "last", "last", namespace=each) for each in self._namespaces]
                asked.append(
                    access_review("x", "create", "roles", groups=["system:authenticated"], group=GROUP)
                )
                return all([(await _review(client, each))["allowed"] for each in asked])

            await eventually(counts)

    async def ask_each(self) -> list[bool]:
        """Random questions; each answer, which is the same on both."""
        questions = [self._world.question() for _ in range(QUESTIONS)]
        bodies = [_question(user, asked) for user, asked in questions]
        answers = [await _gather(_review(client, body) for body in bodies) for client in self._clients]
        for body, mine, theirs in zip(bodies, *answers, strict=True):
            assert mine["allowed"] == theirs["allowed"], (body, mine, theirs)
        return [answer["allowed"] for answer in answers[0]]

    async def write_each(self) -> set[int]:
        """Roles and bindings that random users try to write: refused or not alike, in the same words."""
        objects = self._world.objects(roles=WRITES // 2, bindings=WRITES // 2)
        written = [(self._world.user(), obj) for obj in objects]
        answers = [
            await _gather(_attempt(client, user, obj) for user, obj in written) for client in self._clients
        ]
        for (user, obj), mine, theirs in zip(written, *answers, strict=True):
            assert mine == theirs, (user, obj)
        return {status for status, _ in answers[0]}

    async def list_each(self) -> None:
        """The rules that a user is told they have."""
        for _ in range(LISTINGS):
            user = self._world.user()
            spec = {"spec": {"namespace": self._namespaces[0]}}
            body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview", **spec}
            mine, theirs = [
                (
                    await client.send("POST", f"{ACCESS}/selfsubjectrulesreviews", body, headers=_as(user))
                ).expect(201)
                for client in self._clients
            ]
            told = mine["status"]
            told["nonResourceRules"] = [rule for rule in told["nonResourceRules"] if not _is_ours(rule)]
            for field in ("resourceRules", "nonResourceRules"):
                assert _sorted(told[field]) == _sorted(theirs["status"][field])


def _is_ours(rule: dict[str, Any]) -> bool:
    """Whether a rule is about paths that only this server has."""
    return all(url.startswith("/pilothouse/") for url in rule["nonResourceURLs"])


def _served() -> set[tuple[str, str]]:
    """Group and plural of what is served here."""
    return {(resource.group, resource.plural) for resource in KindCatalog(resources())}


def _concerns(atom: PolicyRule, served: set[tuple[str, str]]) -> bool:
    """Whether a part of a rule is about something that is served, or about everything, or about a path."""
    if atom.urls:
        return True
    resource, _, subresource = atom.resources[0].partition("/")
    if resource == "*":
        return True
    # Ways into a running container are the node's to offer.
    return (atom.groups[0], resource) in served and subresource not in (
        "attach",
        "exec",
        "portforward",
        "proxy",
        "rollback",  # In the roles still, and in no version of Deployments that Kubernetes serves.
    )


def _question(user: User, asked: Attributes) -> Json:
    what = asked.path if asked.is_path else asked.resource
    spec: Json = {"user": user.name, "groups": list(user.groups)}
    if asked.is_path:
        spec["nonResourceAttributes"] = {"verb": asked.verb, "path": what}
    else:
        fields = ("verb", "group", "version", "resource", "subresource", "namespace", "name")
        spec["resourceAttributes"] = {field: getattr(asked, field) for field in fields}
    return {"spec": spec}


async def _review(client: Http, body: Json) -> Json:
    about = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview"}
    found: Json = (await client.post(SUBJECT_ACCESS, {**about, **body})).expect(201)["status"]
    return found


async def _attempt(client: Http, user: User, obj: Json) -> tuple[int, str]:
    named = {**obj, "metadata": {**obj["metadata"], "name": f"{obj['metadata']['name']}-more"}}
    answer = await client.send("POST", place(obj), named, headers=_as(user), dryRun="All")
    if answer.status == 404:
        # Theirs names the binding's resource and the role's name.
        return answer.status, answer.reason
    missing = "; resolution errors"
    return answer.status, answer.message.partition(missing)[0] if answer.status != 201 else ""


async def _create(client: Http, objects: list[Json]) -> None:
    for obj in objects:
        (await client.post(place(obj), obj)).expect(201)


async def _gather(calls: Iterator[Awaitable[T]]) -> list[T]:
    """All results in order, a few calls at a time."""
    turn = asyncio.Semaphore(AT_ONCE)

    async def one(call: Awaitable[T]) -> T:
        async with turn:
            return await call

    return await asyncio.gather(*(one(call) for call in calls))


def _as(user: User) -> CIMultiDict[str]:
    return CIMultiDict(
        [("Impersonate-User", user.name), *(("Impersonate-Group", group) for group in user.groups)]
    )


def _sorted(rules: list[Json]) -> list[str]:
    # What is told of a rule that both servers make themselves is only in another order of words.
    return sorted(str({key: sorted(values) for key, values in sorted(each.items())}) for each in rules)


def _aggregates(source: random.Random) -> Iterator[Json]:
    """Sources with random labels, and aggregates of them and of one another; no rings, where we do better."""
    for number in range(12):
        labels = {f"agg-{letter}": "true" for letter in "abc" if source.random() < 0.5}
        verbs = " ".join(source.sample(["get", "list", "watch", "delete"], 2))
        yield cluster_role(
            f"agg-source-{number}", rule(verbs, source.choice(["pods", "nodes"])), labels=labels
        )
    yield cluster_role("agg-one", selects={"agg-a": "true"}, labels={"agg-up": "true"})
    yield cluster_role("agg-two", selects={"agg-b": "true"}, labels={"agg-up": "true"})
    yield cluster_role("agg-three", selects={"agg-c": "true", "agg-a": "true"})
    yield cluster_role("agg-all", selects={"agg-up": "true"})
    yield cluster_role("agg-none", selects={"agg-nobody": "true"})
