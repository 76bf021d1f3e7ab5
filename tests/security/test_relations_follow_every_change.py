"""Who runs and needs what is counted as objects come and go. It must be what counting them all anew would give."""

from __future__ import annotations

import random
from itertools import product

import pytest
from tests.kit.sample_installation import LABEL, PILOT, SampleInstallation

from pilothouse.apiserver.authorization.restriction.bound_pods import BoundPods
from pilothouse.apiserver.authorization.restriction.pilot_index import PilotIndex

NODES, PODS = ("n1", "n2"), ("p0", "p1", "p2")
SECRETS, CLAIMS = ("s0", "s1"), ("c0", "c1")
MERGE = "application/merge-patch+json"


class Story:
    """Random changes to a few objects, as the administrator makes them."""

    def __init__(self, shop: SampleInstallation, seed: int) -> None:
        self._shop = shop
        self._random = random.Random(seed)

    def step(self) -> None:
        pick = self._random.choice
        pick([self._make, self._bind, self._status, self._label, self._remove, self._pilot])()

    def _make(self) -> None:
        sources = [{"secret": {"secretName": each}} for each in SECRETS]
        sources += [{"persistentVolumeClaim": {"claimName": each}} for each in CLAIMS]
        chosen = self._random.sample(sources, self._random.randrange(len(sources)))
        volumes = [{"name": f"v{index}", **source} for index, source in enumerate(chosen)]
        spec = {"containers": [{"name": "main", "image": "x:1"}], "volumes": volumes}
        self._send("POST", "pods", "", {"metadata": {"name": self._pod()}, "spec": spec})

    def _bind(self) -> None:
        pod = self._pod()
        body = {"metadata": {"name": pod}, "target": {"kind": "Node", "name": self._random.choice(NODES)}}
        self._send("POST", "pods", pod, body, sub="binding")

    def _status(self) -> None:
        phase = self._random.choice(["Pending", "Running", "Failed"])
        self._send("PATCH", "pods", self._pod(), {"status": {"phase": phase}}, sub="status")

    def _label(self) -> None:
        value = self._random.choice(["", None])
        body = {"metadata": {"labels": {"navigator.jetstack.io/has-pilot": value}}}
        self._send("PATCH", "pods", self._pod(), body)

    def _remove(self) -> None:
        self._send("DELETE", "pods", self._pod(), query="gracePeriodSeconds=0")

    def _pilot(self) -> None:
        pod = self._pod()
        owner = self._shop.read("elasticsearchclusters", self._random.choice(["demo", "logs"]))
        reference = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "controller": True}
        reference |= {"name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"]}
        match self._random.choice(["POST", "PATCH", "DELETE"]):
            case "POST":
                self._send("POST", "pilots", "", {**PILOT, "metadata": {"name": pod, "labels": {LABEL: "x"}}})
            case "PATCH":
                self._send("PATCH", "pilots", pod, {"metadata": {"ownerReferences": [reference]}})
            case _:
                self._send("DELETE", "pilots", pod)

    def _pod(self) -> str:
        return self._random.choice(PODS)

    def _send(
        self, method: str, plural: str, name: str, body: object = None, *, sub: str = "", query: str = ""
    ) -> None:
        """Whatever comes of it: some changes can't be made as things are."""
        type = MERGE if method == "PATCH" else "application/json"
        self._shop.send(method, self._shop.at(plural, name, sub=sub), body, type=type, query=query)


def told(pods: BoundPods, pilots: PilotIndex) -> list[object]:
    """Every answer about the objects of the story."""
    return [
        *(pods.find("shop", pod) for pod in PODS),
        *(pilots.find("shop", pod) for pod in PODS),
        *(pods.runs(node, "shop", pod) for node, pod in product(NODES, PODS)),
        *(pods.needs(node, "secrets", "shop", name) for node, name in product(NODES, SECRETS)),
        *(pods.needs(node, "persistentvolumeclaims", "shop", name) for node, name in product(NODES, CLAIMS)),
    ]


@pytest.mark.parametrize("seed", range(4))
def test_counting_along_gives_what_counting_anew_gives(seed: int) -> None:
    with SampleInstallation() as shop:
        story = Story(shop, seed)
        along = BoundPods(shop.core.cache), PilotIndex(shop.core.cache)
        for index in along:
            index.broken()
            shop.core.cache.listen(index)
        seen = set()
        for _ in range(150):
            story.step()
            shop.settle()
            anew = BoundPods(shop.core.cache), PilotIndex(shop.core.cache)
            for index in anew:
                index.broken()
            assert told(*along) == told(*anew)
            seen.add(str(told(*anew)))
        assert len(seen) > 30
