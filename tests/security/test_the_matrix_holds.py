from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.kit.core import ADMIN, Answered
from tests.kit.rbac_objects import SUBJECT_ACCESS, bind, place
from tests.kit.sample_installation import LABEL, SampleInstallation, node
from tests.security import matrix
from tests.security.matrix import SELECTING, VERBS, Row

from pilothouse.api.storage_pools import POOL_NODE
from pilothouse.apiserver.registry.access_reviews import user_info
from pilothouse.apiserver.server.messages import ANONYMOUS, User

DOCUMENT = Path(__file__).parents[2] / "docs/access-matrix.md"


RESTRICTED = ("pilot", "other pilot", "node", "other node")


@pytest.fixture(scope="module")
def shop() -> Iterator[SampleInstallation]:
    with SampleInstallation() as made:
        furnish(made)
        yield made


@pytest.fixture(scope="module")
def users(shop: SampleInstallation) -> dict[str, User]:
    return users_of(shop)


def furnish(shop: SampleInstallation) -> None:
    """Roles for people, and a claim with its volume for a pod on the first node."""
    size = {"resources": {"requests": {"storage": "1Gi"}}, "accessModes": ["ReadWriteOnce"]}
    shop.make("shop", "persistentvolumeclaims", "data-es-demo-0", {"spec": size})
    volume = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "hostPath": {"path": "/x"},
        "claimRef": {"namespace": "shop", "name": "data-es-demo-0"},
    }
    shop.make("", "persistentvolumes", "pv-es-demo-0", {"spec": volume})
    claim = {"name": "d", "persistentVolumeClaim": {"claimName": "data-es-demo-0"}}
    shop.pod("shop", "claimant", "n1", account="es-demo", volumes=[claim])
    # Its sister runs on the other node, which would then have to do with the same secret and account.
    shop.send("DELETE", shop.at("pods", "es-demo-1"), query="gracePeriodSeconds=0").expect(200)
    for role in ("admin", "edit", "view"):
        binding = bind("shop", role, f"ClusterRole/{role}", f"User/{role}")
        shop.send("POST", place(binding), binding).expect(201)


def users_of(shop: SampleInstallation) -> dict[str, User]:
    people = {name: User(name, groups=("system:authenticated",)) for name in ("admin", "edit", "view")}
    return {
        **people,
        "pilot": shop.pilot("shop", "es-demo-0"),
        "other pilot": shop.pilot("shop", "es-logs-0"),
        "node": node("n1"),
        "other node": node("n2"),
        "account": shop.bearer(shop.token("shop", "default")),
        "nobody": ANONYMOUS,
    }


class Asking:
    """Puts the question of one cell to the server, as a SubjectAccessReview."""

    def __init__(self, shop: SampleInstallation, user: User) -> None:
        self._shop = shop
        self._who = user_info(user)
        self._who["user"] = self._who.pop("username")

    def allowed(self, row: Row) -> frozenset[str]:
        found = []
        for verb in VERBS:
            if verb not in row.verbs:
                continue
            if verb in SELECTING:
                if self._ask(row, verb):
                    found.append(verb)
                elif any(self._ask(row, verb, **how) for how in self._selectors(row)):
                    found.append(f"{verb}*")
            elif self._ask(row, verb, **({"name": row.name} if self._is_named(row, verb) else {})):
                found.append(verb)
        return frozenset(found)

    def _is_named(self, row: Row, verb: str) -> bool:
        return verb != "create" or bool(row.subresource)

    def _selectors(self, row: Row) -> Iterator[dict[str, Any]]:
        """Every way in which a request may be confined, to each cluster and to each node."""
        for cluster in ("demo", "logs"):
            requirement = {"key": LABEL, "operator": "In", "values": [cluster]}
            yield {"labelSelector": {"requirements": [requirement]}}
        for name in ("n1", "n2"):
            yield {"fieldSelector": {"rawSelector": f"spec.nodeName={name}"}}
            requirement = {"key": POOL_NODE, "operator": "In", "values": [name]}
            yield {"labelSelector": {"requirements": [requirement]}}
        yield {"name": row.name, "fieldSelector": {"rawSelector": f"metadata.name={row.name}"}}

    def _ask(self, row: Row, verb: str, **more: Any) -> bool:
        asked = {
            "verb": verb,
            "group": row.group,
            "resource": row.plural,
            "subresource": row.subresource,
            **more,
        }
        # A request for one namespace counts as one within it.
        if row.namespaced or (row.resource == "namespaces" and more and verb not in SELECTING):
            asked["namespace"] = "shop"
        body = {"spec": {**self._who, "resourceAttributes": asked}}
        answer = self._shop.send("POST", SUBJECT_ACCESS, body, user=ADMIN).expect(201)
        return bool(answer["status"]["allowed"])


@pytest.mark.parametrize("identity", matrix.IDENTITIES)
def test_every_cell_is_as_the_table_says(
    shop: SampleInstallation, users: dict[str, User], identity: str
) -> None:
    asking = Asking(shop, users[identity])
    wrong = {
        row.title: f"{sorted(found)} instead of {sorted(expected)}"
        for row in matrix.rows()
        if (found := asking.allowed(row)) != (expected := matrix.allowed(identity, row))
    }
    assert wrong == {}


def test_the_table_names_nothing_that_is_not_served() -> None:
    served = {row.title for row in matrix.rows()}
    named = {title for rules in matrix.ALLOWED.values() for _, where in rules for title in where.split()}
    assert named - served == set()


def test_the_page_is_made_from_the_table() -> None:
    assert DOCUMENT.read_text() == matrix.render(), "python -m tests.security.matrix > docs/access-matrix.md"


@pytest.mark.parametrize("identity", RESTRICTED)
def test_roles_add_nothing_to_a_pilot_or_node(identity: str) -> None:
    with SampleInstallation() as shop:
        user = users_of(shop)[identity]
        furnish(shop)
        shop.grant_everything(user)
        asking = Asking(shop, user)
        assert {row.title: asking.allowed(row) for row in matrix.rows()} == {
            row.title: matrix.allowed(identity, row) for row in matrix.rows()
        }


@pytest.mark.parametrize("identity", [*RESTRICTED, "account", "nobody"])
def test_what_the_table_refuses_is_refused_for_real_and_writes_nothing(
    shop: SampleInstallation, users: dict[str, User], identity: str
) -> None:
    tried = 0
    for row in matrix.rows():
        for verb in set(row.verbs) - {each for each in matrix.allowed(identity, row) if "*" not in each}:
            revision = shop.revision
            answer = attempt(shop, users[identity], row, verb)
            assert (answer.status, shop.revision) == (403, revision), f"{verb} {row.title}: {answer.body!r}"
            tried += 1
    assert tried > 300


def attempt(shop: SampleInstallation, user: User, row: Row, verb: str) -> Answered:
    """The request itself."""
    served = shop.core.catalog.resource(row.group, row.plural)
    assert served is not None
    base = f"/apis/{row.group}/{served.storage}" if row.group else "/api/v1"
    named = verb not in ("list", "watch", "deletecollection") and (verb != "create" or row.subresource)
    parts = [base, "namespaces/shop" if row.namespaced else "", row.plural]
    path = "/".join(filter(None, [*parts, row.name if named else "", row.subresource]))
    method = _METHODS.get(verb, "GET")
    body: dict[str, Any] | None = {} if method in ("POST", "PUT", "PATCH") else None
    kind = "application/merge-patch+json" if verb == "patch" else "application/json"
    return shop.send(method, path, body, type=kind, query="watch=1" if verb == "watch" else "", user=user)


_METHODS = {
    "create": "POST",
    "update": "PUT",
    "patch": "PATCH",
    "delete": "DELETE",
    "deletecollection": "DELETE",
}
