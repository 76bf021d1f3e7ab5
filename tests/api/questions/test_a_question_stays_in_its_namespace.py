"""A Question is about a claim of its own namespace, or about a rule, and holds nothing back from being deleted."""

from __future__ import annotations

from typing import Any

import pytest
from tests.kit.admission import admit

from pilothouse.api.pilothouse.kinds import QUESTION

Json = dict[str, Any]


def asked(**about: str) -> Json:
    return {"spec": {"about": {"kind": "PersistentVolumeClaim", "name": "data", **about}, "what": "Reading"}}


@pytest.mark.parametrize(
    "question",
    [
        asked(),
        asked(namespace="default", apiVersion="v1", uid="u"),
        asked(kind="AutopilotRule", apiVersion="autopilot.libopenstorage.org/v1alpha1"),
        {"spec": {"about": {"kind": "AutopilotRule", "name": "grow"}}},
    ],
)
def test_what_can_be_asked(question: Json) -> None:
    found = admit(QUESTION, question)
    assert (found.problems, found.unknown) == ([], [])
    assert found.obj["spec"]["what"] == "Reading"


@pytest.mark.parametrize(
    ("question", "path"),
    [
        (asked(namespace="other"), "spec.about.namespace"),
        (asked(kind="AutopilotRule", namespace="default"), "spec.about.namespace"),
        (asked(kind="Secret"), "spec.about.kind"),
        (asked(apiVersion="v2"), "spec.about.apiVersion"),
        (asked(name=""), "spec.about.name"),
        ({"spec": {**asked()["spec"], "what": "Everything"}}, "spec.what"),
        ({"spec": {}}, "spec.about"),
        ({**asked(), "metadata": {"finalizers": ["example.com/hold"]}}, "metadata.finalizers"),
        (
            {
                **asked(),
                "metadata": {
                    "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}]
                },
            },
            "metadata.ownerReferences",
        ),
    ],
)
def test_what_can_not_be_asked(question: Json, path: str) -> None:
    assert admit(QUESTION, question).paths == [path]


def test_it_can_not_be_changed() -> None:
    old = admit(QUESTION, asked()).obj
    assert admit(QUESTION, {**old, "spec": asked(name="other")["spec"]}, old).paths == ["spec"]
    assert admit(QUESTION, {**old, "metadata": {**old["metadata"], "labels": {"a": "b"}}}, old).paths == []
