from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.kit.rbac_objects import ACCESS, SUBJECT_ACCESS
from tests.kit.sample_installation import LABEL, SampleInstallation, node

from pilothouse.apiserver.registry.review_selectors import field_selector, label_selector

N1 = {"user": "system:node:n1", "groups": ["system:nodes"]}


@pytest.fixture(scope="module")
def shop() -> Iterator[SampleInstallation]:
    with SampleInstallation() as made:
        yield made


def asked(shop: SampleInstallation, who: dict[str, Any], **attributes: Any) -> dict[str, Any]:
    body = {"spec": {**who, "resourceAttributes": {"verb": "list", **attributes}}}
    return dict(shop.send("POST", SUBJECT_ACCESS, body).expect(201)["status"])


@pytest.mark.parametrize(
    "selector",
    [
        {"rawSelector": "spec.nodeName=n1"},
        {"requirements": [{"key": "spec.nodeName", "operator": "In", "values": ["n1"]}]},
    ],
)
def test_a_review_may_say_how_the_list_is_confined(
    shop: SampleInstallation, selector: dict[str, Any]
) -> None:
    assert asked(shop, N1, resource="pods", fieldSelector=selector)["allowed"]


@pytest.mark.parametrize(
    "selector",
    [
        None,
        {"rawSelector": "spec.nodeName=n2"},
        {"requirements": [{"key": "spec.nodeName", "operator": "NotIn", "values": ["n1"]}]},
        {"requirements": [{"key": "spec.nodeName", "operator": "In", "values": ["n1", "n2"]}]},
        {"requirements": [{"key": "spec.nodeName", "operator": "Exists"}]},
    ],
)
def test_what_confines_too_little_is_denied(
    shop: SampleInstallation, selector: dict[str, Any] | None
) -> None:
    more = {"fieldSelector": selector} if selector else {}
    answer = asked(shop, N1, resource="pods", **more)
    assert (answer["allowed"], answer["denied"]) == (False, True)
    assert "ask with fieldSelector=spec.nodeName=n1" in answer["reason"]


def test_requirements_read_like_a_selector() -> None:
    every = [
        {"key": "a", "operator": "In", "values": ["b", "c"]},
        {"key": "d", "operator": "NotIn", "values": ["e"]},
        {"key": "f", "operator": "Exists"},
        {"key": "g", "operator": "DoesNotExist"},
        {"key": "h", "operator": "Unheard"},
    ]
    assert label_selector({"requirements": every}) == "a in (b,c),d notin (e),f,!g"
    assert field_selector({"requirements": every}) == "d!=e"
    assert label_selector(None) == field_selector({}) == ""


def test_the_list_of_rules_says_that_it_is_not_all(shop: SampleInstallation) -> None:
    path = f"{ACCESS}/selfsubjectrulesreviews"
    body = {"spec": {"namespace": "shop"}}
    for user in (node("n1"), shop.pilot()):
        status = shop.send("POST", path, body, user=user).expect(201)["status"]
        assert status["incomplete"]
        assert "depends on objects" in status["evaluationError"]
    web = shop.bearer(shop.token("shop", "web", "web"))
    assert not shop.send("POST", path, body, user=web).expect(201)["status"]["incomplete"]


def test_a_pilot_may_ask_about_itself(shop: SampleInstallation) -> None:
    path = f"{ACCESS}/selfsubjectaccessreviews"
    attributes = {"verb": "list", "resource": "secrets", "namespace": "shop"}
    confined = {**attributes, "labelSelector": {"rawSelector": f"{LABEL}=demo"}}
    found = []
    for asked_for in (attributes, confined):
        answer = shop.send("POST", path, {"spec": {"resourceAttributes": asked_for}}, user=shop.pilot())
        found.append(answer.expect(201)["status"]["allowed"])
    assert found == [False, True]
