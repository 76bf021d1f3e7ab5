"""Case 64: one object through two versions."""

from __future__ import annotations

import asyncio
import random
import string

import pytest
from tests.kit.databases import V1, V1ALPHA1, Databases, database
from tests.kit.http import Http, Json

pytestmark = pytest.mark.conformance

WARNING = f"{V1ALPHA1} Database is deprecated; use {V1} Database"


def apart_from_version(item: Json) -> Json:
    return {key: value for key, value in item.items() if key != "apiVersion"}


async def test_case_64_both_versions_show_the_same_object(dbs: Databases, http: Http) -> None:
    body = database("a", version=V1ALPHA1, users=[{"name": "u1"}], tags=["x"])
    posted = await http.post(dbs.path("v1alpha1"), body)
    created = posted.expect(201)
    assert posted.warnings == [WARNING]

    through_new = await http.get(dbs.at("a"))
    through_old = await http.get(dbs.at("a", version="v1alpha1"))
    assert through_new.warnings == []
    assert through_old.warnings == [WARNING]
    assert through_new.json["apiVersion"] == V1
    assert through_old.json == created
    assert apart_from_version(through_new.json) == apart_from_version(created)


async def test_case_64_an_edit_through_the_old_version_keeps_new_fields(dbs: Databases, http: Http) -> None:
    await dbs.create("a", note="only the new version declares this")

    patch = {"spec": {"replicas": 2}}
    patched = (await http.patch(dbs.at("a", version="v1alpha1"), patch)).expect(200)

    assert patched["apiVersion"] == V1ALPHA1
    live = await dbs.read("a")
    assert live["spec"]["note"] == "only the new version declares this"
    assert live["spec"]["replicas"] == 2
    assert live["metadata"]["resourceVersion"] == patched["metadata"]["resourceVersion"]


def arbitrary_tree(chance: random.Random, depth: int = 3) -> object:
    kind = chance.randrange(7 if depth else 5)
    match kind:
        case 0:
            return chance.randrange(-(2**53), 2**53)
        case 1:
            return chance.choice([0.5, -1.25, 1e-3, 3.75e10])
        case 2:
            return chance.random() < 0.5
        case 3 | 4:
            return arbitrary_text(chance)
        case 5:
            return [arbitrary_tree(chance, depth - 1) for _ in range(chance.randrange(4))]
        case _:
            return {
                arbitrary_text(chance): arbitrary_tree(chance, depth - 1) for _ in range(chance.randrange(4))
            }


def arbitrary_text(chance: random.Random) -> str:
    alphabet = string.ascii_letters + string.digits + " \"\\/<>&'\n\té☃𝄞\u2028"
    return "".join(chance.choice(alphabet) for _ in range(chance.randrange(1, 13)))


def arbitrary_database(chance: random.Random, name: str, version: str) -> Json:
    spec: Json = {"engine": chance.choice(["pg", "mysql"])}
    if chance.random() < 0.5:
        spec["replicas"] = chance.randrange(10)
    if chance.random() < 0.5:
        spec["owner"] = arbitrary_text(chance)
    if chance.random() < 0.5:
        roles = [{}, {"role": arbitrary_text(chance)}]
        spec["users"] = [{"name": f"u{n}", **chance.choice(roles)} for n in range(chance.randrange(4))]
    if chance.random() < 0.5:
        spec["tags"] = sorted({arbitrary_text(chance) for _ in range(chance.randrange(4))})
    if chance.random() < 0.5:
        spec["note"] = arbitrary_text(chance)
    if chance.random() < 0.7:
        spec["extra"] = {arbitrary_text(chance): arbitrary_tree(chance) for _ in range(chance.randrange(5))}
    annotations = {f"k{n}": arbitrary_text(chance) for n in range(chance.randrange(3))}
    return {**database(name, version=version, metadata={"annotations": annotations}), "spec": spec}


async def test_case_64_a_thousand_arbitrary_objects_are_the_same_both_ways(
    dbs: Databases, http: Http
) -> None:
    chance = random.Random(64)
    total = 1000
    versions = {n: chance.choice(["v1", "v1alpha1"]) for n in range(total)}
    bodies = {n: arbitrary_database(chance, f"o{n:04}", f"nav.example.io/{v}") for n, v in versions.items()}
    created: dict[str, Json] = {}

    async def create(numbers: range) -> None:
        for n in numbers:
            answer = await http.post(dbs.path(versions[n]), bodies[n])
            created[f"o{n:04}"] = answer.expect(201)

    await asyncio.gather(*(create(range(first, total, 16)) for first in range(16)))

    for version in ("v1", "v1alpha1"):
        listed = (await http.get(dbs.path(version))).expect(200)
        assert {item["apiVersion"] for item in listed["items"]} == {f"nav.example.io/{version}"}
        seen = {item["metadata"]["name"]: apart_from_version(item) for item in listed["items"]}
        assert seen == {name: apart_from_version(item) for name, item in created.items()}
    for n, body in bodies.items():
        given = {key: value for key, value in body["spec"].items() if key != "users"}
        assert created[f"o{n:04}"]["spec"].items() >= given.items()
