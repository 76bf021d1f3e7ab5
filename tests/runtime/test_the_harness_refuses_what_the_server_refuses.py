"""The executor gets the same outcomes from the objects in memory of the step-by-step harness and from the real server."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest
from tests.kit.memory_transport import MemoryObjects, MemoryTransport

from pilothouse.api.kind_names import Lease, Pod, noun_of
from pilothouse.api.objects import Object, Tree
from pilothouse.client.api import Api
from pilothouse.runtime.controller import ReconcileKey
from pilothouse.runtime.expectations import Expectations
from pilothouse.runtime.intent_executor import IntentExecutor
from pilothouse.runtime.intents import (
    Create,
    Delete,
    Intent,
    ObjectTarget,
    PatchObject,
    SetStatus,
    Update,
)
from pilothouse.sim.loop import LoopClock, SeededLoop
from pilothouse.sim.simulated_server import SimulatedServer

WHY = "a test"


class Session:
    """A server of either kind, the object that a decision has seen, and what came of its intents."""

    def __init__(self, api: Api, loop: SeededLoop) -> None:
        self.api = api
        self._loop = loop
        self.seen = self.run(api.create(Lease, lease("a")))

    def run(self, asked: Any) -> Any:
        return self._loop.run_until_complete(asked)

    def execute(self, *intents: Intent) -> list[str]:
        executor = IntentExecutor(
            self.api,
            manager="test",
            noun_of=noun_of,
            record_event=lambda about, reason, message, warning, source: None,
            expectations=Expectations(),
        )
        key = ReconcileKey(Lease, "default", "a")
        return [
            str(each.outcome) for each in self.run(executor.execute(intents, self.seen, key, lambda: None))
        ]

    def touch(self) -> None:
        """Another writer changes the object that was seen."""
        self.run(self.api.patch(Lease, "a", "default", {"metadata": {"labels": {"touched": "yes"}}}))

    def replace(self) -> None:
        """The object that was seen is gone, and another has its name."""
        self.run(self.api.delete(Lease, "a", "default"))
        self.run(self.api.create(Lease, lease("a")))

    def target(self, uid: str = "") -> ObjectTarget:
        return ObjectTarget(Lease, "default", "a", uid)


def lease(name: str, holder: str = "one") -> Tree:
    metadata = {"name": name, "namespace": "default"}
    return {
        "apiVersion": Lease.api_version,
        "kind": "Lease",
        "metadata": metadata,
        "spec": {"holderIdentity": holder},
    }


@pytest.fixture(params=["memory", "server"])
def session(request: pytest.FixtureRequest) -> Iterator[Session]:
    with SeededLoop(1) as loop:
        if request.param == "memory":
            yield Session(Api(MemoryTransport(MemoryObjects()), random.Random(1), manager="test"), loop)
            return
        server = SimulatedServer(LoopClock(loop), seed=1)
        loop.run_until_complete(server.start())
        yield Session(server.api("test"), loop)
        loop.run_until_complete(server.stop())


def changed(seen: Object, holder: str = "two") -> Tree:
    return {**seen.tree, "spec": {**seen.spec, "holderIdentity": holder}}


def test_a_name_that_is_taken(session: Session) -> None:
    assert session.execute(Create(lease("a"), because=WHY)) == ["Refused"]
    assert session.execute(Create(lease("b"), because=WHY)) == ["Done"]


def test_a_write_to_the_version_that_was_seen(session: Session) -> None:
    seen = session.seen
    first = Update(seen, changed(seen), because=WHY)
    second = PatchObject(seen, {"metadata": {"labels": {"x": "y"}}}, exact=True, because=WHY)
    assert session.execute(first, second) == ["Done", "Done"], "a decision goes on from its own writes"


def test_a_write_to_an_older_version(session: Session) -> None:
    seen = session.seen
    session.touch()
    assert session.execute(Update(seen, changed(seen), because=WHY)) == ["Refused"]
    exact = PatchObject(seen, {"spec": {"holderIdentity": "two"}}, exact=True, because=WHY)
    assert session.execute(exact) == ["Refused"]
    assert session.execute(PatchObject(seen, exact.fields, because=WHY)) == ["Done"]


def test_a_write_to_another_object_of_the_name(session: Session) -> None:
    seen = session.seen
    session.replace()
    patch = PatchObject(seen, {"spec": {"holderIdentity": "two"}}, because=WHY)
    assert session.execute(patch) == ["Failed"], "the uid is immutable: 422, as of kube-apiserver"
    assert session.execute(Delete(seen, because=WHY)) == ["Refused"]


def test_a_deletion(session: Session) -> None:
    seen = session.seen
    session.touch()
    assert session.execute(Delete(seen, exact=True, because=WHY)) == ["Refused"]
    assert session.execute(Delete(seen, because=WHY)) == ["Done"]
    assert session.execute(Delete(seen, because=WHY)) == ["Skipped"], "it is gone already"


@pytest.mark.parametrize("is_other", [False, True], ids=["the same uid", "another uid"])
def test_unless_another_object_exists(session: Session, is_other: bool) -> None:
    other = session.run(session.api.create(Lease, lease("b")))
    unless = (session.target("gone" if is_other else session.seen.uid),)
    expected = ["Done"] if is_other else ["Refused"]
    assert session.execute(Update(other, changed(other), unless=unless, because=WHY)) == expected
    assert session.execute(Delete(other, unless=unless, because=WHY)) == expected


def test_unless_any_object_of_the_name_or_kind_exists(session: Session) -> None:
    other = session.run(session.api.create(Lease, lease("b")))
    for unless in (session.target(), ObjectTarget(Lease, "default")):
        assert session.execute(Delete(other, unless=(unless,), because=WHY)) == ["Refused"]
    assert session.execute(Delete(other, unless=(ObjectTarget(Pod, "default"),), because=WHY)) == ["Done"]


def test_provided_that_another_object_exists(session: Session) -> None:
    other = session.run(session.api.create(Lease, lease("b")))
    fields = {"spec": {"holderIdentity": "two"}}
    for uid, expected in (("gone", "Refused"), (session.seen.uid, "Done")):
        patch = PatchObject(other, fields, provided=session.target(uid), because=WHY)
        assert session.execute(patch) == [expected]


def test_a_write_that_changes_nothing(session: Session) -> None:
    seen = session.seen
    written = session.run(session.api.update(Lease, seen))
    assert written.resource_version == seen.resource_version
    assert session.execute(Update(seen, dict(seen.tree), because=WHY)) == ["Skipped"]


def test_the_intents_after_a_refused_one(session: Session) -> None:
    after = Create(lease("c"), because=WHY)
    assert session.execute(Create(lease("a"), because=WHY), after) == ["Refused", "Pending"]


def test_a_status_is_written_by_its_subresource_alone(session: Session) -> None:
    claim = session.run(session.api.create(_CLAIM_NOUN, _CLAIM))
    both = {**claim.tree, "status": {"phase": "Bound"}, "metadata": {**claim.meta, "labels": {"x": "y"}}}
    assert session.execute(Update(claim, both, because=WHY)) == ["Done"]
    written = session.run(session.api.get(_CLAIM_NOUN, "c", "default"))
    assert (written.labels.get("x"), written.status.get("phase")) == ("y", claim.status.get("phase"))
    assert session.execute(SetStatus(written, {"phase": "Lost"}, because=WHY)) == ["Done"]
    written = session.run(session.api.get(_CLAIM_NOUN, "c", "default"))
    assert (written.labels.get("x"), written.status.get("phase")) == ("y", "Lost")


_CLAIM_NOUN = noun_of("v1", "PersistentVolumeClaim")
_CLAIM: Tree = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "c", "namespace": "default"},
    "spec": {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "",
        "resources": {"requests": {"storage": "1Gi"}},
    },
}
