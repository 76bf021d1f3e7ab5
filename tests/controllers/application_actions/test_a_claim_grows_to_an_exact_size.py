"""An action that resizes a volume brings about its exact target, once, and says how it went."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.kit.scheduling_objects import NOW, claim, seen, storage_class
from tests.runtime.conftest import Bench

from pilothouse.api.kind_names import (
    ApplicationAction,
    AutopilotRule,
    ConfigMap,
    CoreEvent,
    KindName,
    Namespace,
    PersistentVolumeClaim,
    StorageClass,
)
from pilothouse.api.objects import Object, Tree
from pilothouse.base.rfc3339 import format_time
from pilothouse.controllers.application_actions import all_executors
from pilothouse.controllers.application_actions.volume_resize import volume_resize
from pilothouse.runtime.intents import Intent, PatchObject, SetStatus, Wait
from pilothouse.sim.loop import SeededLoop

RESIZE = "openstorage.io.action.volume/resize"
PAUSED = "autopilot.libopenstorage.org/paused"
FAST: Tree = {**storage_class("fast"), "allowVolumeExpansion": True}


def action(
    name: str = "grow-1", *, to: str = "480Mi", uid: str = "uid-data", status: Tree | None = None, **spec: Any
) -> Tree:
    reference = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "name": "data", "uid": uid}
    return {
        "apiVersion": ApplicationAction.api_version,
        "kind": ApplicationAction.kind,
        "metadata": {"name": name, "namespace": "default", "creationTimestamp": format_time(NOW)},
        "spec": {"rule": "grow", "object": reference, "action": RESIZE, "target": {"to": to}, **spec},
        **({"status": status} if status else {}),
    }


def bound(size: str = "320Mi", *, asks: str = "", **status: Any) -> Tree:
    return claim(
        size=asks or size,
        storageClassName="fast",
        volumeName="pv-1",
        status={"phase": "Bound", "capacity": {"storage": size}, **status},
    )


def running(*, reason: str = "Resizing", attempts: int = 1) -> Tree:
    return {
        "phase": "Running",
        "startTime": format_time(NOW),
        "attempts": attempts,
        "before": {"size": "320Mi"},
        "conditions": [{"type": "Complete", "status": "False", "reason": reason, "message": ""}],
    }


def status_of(intents: list[Intent]) -> Tree:
    (written,) = [each for each in intents if isinstance(each, SetStatus)]
    return written.status


def reason_of(status: Tree) -> tuple[str, str, str]:
    (condition,) = status["conditions"]
    return status["phase"], condition["status"], condition["reason"]


class Volumes:
    """A server with a claim of a class that may grow; the volume grows when the test says so."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.api = bench.api
        self.claim: Object

    async def start(self) -> None:
        await self.api.create(StorageClass, FAST)
        tree = bound()
        del tree["metadata"]["uid"], tree["status"]
        await self.api.create(PersistentVolumeClaim, tree)
        await self.patch({"phase": "Bound", "capacity": {"storage": "320Mi"}})
        self.bench.manage(all_executors())

    async def patch(self, status: Tree) -> None:
        self.claim = await self.api.patch(
            PersistentVolumeClaim, "data", "default", {"status": status}, subresource="status"
        )

    async def fire(self, **fields: Any) -> None:
        tree = action(uid=self.claim.uid, **fields)
        del tree["metadata"]["creationTimestamp"]
        await self.api.create(ApplicationAction, tree)

    async def request(self) -> str:
        found = await self.api.get(PersistentVolumeClaim, "data", "default")
        return str(found.at("spec", "resources", "requests", "storage"))

    async def action(self, name: str = "grow-1") -> Tree:
        return dict((await self.api.get(ApplicationAction, name, "default")).status)


def play(scenario: Callable[[Volumes], Awaitable[None]]) -> None:
    async def whole(bench: Bench) -> None:
        volumes = Volumes(bench)
        await volumes.start()
        await scenario(volumes)

    with SeededLoop(1) as loop:
        Bench(loop).run(whole)


def test_the_request_is_raised_and_the_action_succeeds_when_the_volume_has_that_size() -> None:
    async def scenario(volumes: Volumes) -> None:
        await volumes.fire()
        await asyncio.sleep(2)
        assert await volumes.request() == "480Mi"
        assert reason_of(await volumes.action()) == ("Running", "False", "Resizing")
        await asyncio.sleep(600)
        assert reason_of(await volumes.action()) == ("Running", "False", "Resizing")
        await volumes.patch({"capacity": {"storage": "480Mi"}})
        await asyncio.sleep(2)
        status = await volumes.action()
        assert reason_of(status) == ("Succeeded", "True", "Resized")
        assert (status["before"], status["after"]) == ({"size": "320Mi"}, {"size": "480Mi"})
        assert status["attempts"] == 1
        assert status["completionTime"] > status["startTime"]
        events = (await volumes.api.list(CoreEvent, "default")).objects
        messages = {each.get("message") for each in events}
        assert "rule grow grows it from 320Mi to 480Mi: grow-1" in messages
        assert "claim data grew from 320Mi to 480Mi" in messages

    play(scenario)


def test_writes_are_made_as_a_user_who_may_do_nothing_else() -> None:
    async def scenario(volumes: Volumes) -> None:
        await volumes.fire()
        await asyncio.sleep(2)
        api = volumes.api.impersonating("system:serviceaccount:kube-system:pilothouse-rules")
        claim = await api.get(PersistentVolumeClaim, "data", "default")
        assert claim.managers("spec", "resources", "requests", "storage") == ["pilothouse-volume-resize"]
        with pytest.raises(Exception, match=r"pilothouse-rules.*cannot get resource .namespaces"):
            await api.get(Namespace, "default")
        with pytest.raises(Exception, match=r"pilothouse-rules.*cannot create resource .applicationactions"):
            await api.create(ApplicationAction, action("another"))

    play(scenario)


def test_a_resize_in_progress_comes_first() -> None:
    async def scenario(volumes: Volumes) -> None:
        asked = {"spec": {"resources": {"requests": {"storage": "400Mi"}}}}
        await volumes.api.patch(PersistentVolumeClaim, "data", "default", asked)
        await volumes.fire()
        await asyncio.sleep(60)
        assert await volumes.request() == "400Mi"
        assert "phase" not in await volumes.action()
        await volumes.patch({"capacity": {"storage": "400Mi"}})
        await asyncio.sleep(2)
        assert await volumes.request() == "480Mi"

    play(scenario)


def test_who_lowers_the_request_is_named_and_not_overruled() -> None:
    async def scenario(volumes: Volumes) -> None:
        await volumes.fire()
        await asyncio.sleep(2)
        lower = {"spec": {"resources": {"requests": {"storage": "400Mi"}}}}
        await volumes.api.patch(PersistentVolumeClaim, "data", "default", lower, manager="gitops")
        await asyncio.sleep(3600)
        assert await volumes.request() == "400Mi"
        status = await volumes.action()
        assert reason_of(status) == ("Failed", "False", "Undone")
        assert status["conditions"][0]["message"] == (
            "the request of claim data was changed from 480Mi to 400Mi by the field manager gitops"
        )

    play(scenario)


def test_an_action_reaches_into_no_other_namespace() -> None:
    elsewhere = bound()
    elsewhere["metadata"]["namespace"] = "other"
    reference = {"kind": "PersistentVolumeClaim", "name": "data", "namespace": "other"}
    found = seen(volume_resize, action(object=reference), FAST, elsewhere)
    assert not any(isinstance(each, PatchObject) for each in found)
    (written,) = [each for each in found if isinstance(each, SetStatus)]
    assert written.status["phase"] == "Failed"


@pytest.mark.parametrize("what", ["rule", "namespace", "claim", "all"])
def test_a_pause_holds_before_the_request_is_raised(what: str) -> None:
    async def scenario(volumes: Volumes) -> None:
        api = volumes.api
        mark: Tree = {"metadata": {"annotations": {PAUSED: "true"}}}
        end: Tree = {"metadata": {"annotations": {PAUSED: None}}}
        rule = {
            "apiVersion": AutopilotRule.api_version,
            "kind": AutopilotRule.kind,
            "metadata": {"name": "grow"},
            "spec": {
                "conditions": {"expressions": [{"key": "up", "operator": "Gt", "values": ["0"]}]},
                "actions": [{"name": RESIZE}],
            },
        }
        await api.create(AutopilotRule, rule)
        noun, name, namespace = {
            "rule": (AutopilotRule, "grow", ""),
            "namespace": (Namespace, "default", ""),
            "claim": (PersistentVolumeClaim, "data", "default"),
            "all": (ConfigMap, "autopilot", "kube-system"),
        }[what]
        if what == "all":
            mark, end = {"data": {"paused": "true"}}, {"data": {"paused": None}}
            meta = {"name": name, "namespace": namespace}
            await api.create(noun, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta})
        await api.patch(noun, name, namespace, mark)
        await asyncio.sleep(2)
        await volumes.fire()
        await asyncio.sleep(60)
        assert await volumes.request() == "320Mi"
        await api.patch(noun, name, namespace, end)
        await asyncio.sleep(20)
        assert await volumes.request() == "480Mi"

    play(scenario)


@pytest.mark.parametrize(
    ("noun", "name", "phase"), [(PersistentVolumeClaim, "data", "Failed"), (Namespace, "default", "")]
)
def test_the_owner_of_a_claim_can_not_keep_an_action_under_way(noun: KindName, name: str, phase: str) -> None:
    """It would use up the budget that claims of other owners need."""

    async def scenario(volumes: Volumes) -> None:
        namespace = "default" if noun == PersistentVolumeClaim else ""
        await volumes.api.patch(noun, name, namespace, {"metadata": {"annotations": {PAUSED: "true"}}})
        await asyncio.sleep(2)
        await volumes.fire()
        await asyncio.sleep(700)
        status = await volumes.action()
        assert status.get("phase", "") == phase
        if phase:
            assert reason_of(status) == (phase, "False", "Paused")
        assert await volumes.request() == "320Mi"

    play(scenario)


@pytest.mark.parametrize(
    ("fields", "there", "expected"),
    [
        ({"parameters": {"maxsize": "320Mi"}}, bound(), ("Declined", "False", "MaxSize")),
        ({"parameters": {"maxsize": "400Mi"}}, bound(), ("Declined", "False", "MaxSize")),
        ({"to": "bare"}, bound(), ("Failed", "False", "InvalidTarget")),
        ({"to": "300Mi"}, bound(), ("Succeeded", "True", "LargeEnough")),
        ({"uid": "of another"}, bound(), ("Failed", "False", "ObjectGone")),
        ({}, claim("another"), ("Failed", "False", "ObjectGone")),
    ],
)
def test_what_can_not_be_done_ends_at_once(
    fields: dict[str, Any], there: Tree, expected: tuple[str, str, str]
) -> None:
    intents = seen(volume_resize, action(**fields), there, FAST)
    assert reason_of(status_of(intents)) == expected
    assert not [each for each in intents if isinstance(each, PatchObject)]


@pytest.mark.parametrize("classes", [[], [storage_class("fast")]])
def test_the_class_has_to_allow_it(classes: list[Tree]) -> None:
    intents = seen(volume_resize, action(), bound(), *classes)
    assert reason_of(status_of(intents)) == ("Failed", "False", "ExpansionNotAllowed")


def test_an_attempt_whose_write_was_lost_is_made_again_with_back_off() -> None:
    status = running(reason="Requesting")
    patch, _ = seen(volume_resize, action(status=status), bound(), FAST, now=NOW + 1)
    assert isinstance(patch, PatchObject)
    (wait,) = seen(volume_resize, action(status=status), bound(), FAST, now=NOW + 4)
    assert isinstance(wait, Wait)
    assert wait.seconds == 6
    second = seen(volume_resize, action(status=status), bound(), FAST, now=NOW + 10)
    first, patch, *_ = second
    assert isinstance(patch, PatchObject)
    assert isinstance(first, SetStatus)
    assert first.status["attempts"] == 2


def test_a_request_that_is_refused_again_and_again_fails() -> None:
    status = running(reason="Requesting", attempts=6)
    late = NOW + 10 + 20 + 40 + 80 + 160 + 320
    intents = seen(volume_resize, action(status=status), bound(), FAST, now=late)
    assert reason_of(status_of(intents)) == ("Failed", "False", "RequestRefused")


def test_a_volume_that_can_not_grow_is_given_up_and_the_error_named() -> None:
    error = {"type": "NodeResizeError", "status": "True", "message": "no space left on device"}
    stuck = bound(asks="480Mi", conditions=[error])
    status, wait = seen(volume_resize, action(status=running()), stuck, FAST, now=NOW + 599)
    assert isinstance(status, SetStatus)
    assert "no space left" in status.because
    assert isinstance(wait, Wait)
    intents = seen(volume_resize, action(status=running()), stuck, FAST, now=NOW + 600)
    assert reason_of(status_of(intents)) == ("Failed", "False", "NotResized")
    assert "no space left" in status_of(intents)["conditions"][0]["message"]
    quiet = bound(asks="480Mi")
    assert isinstance(seen(volume_resize, action(status=running()), quiet, FAST, now=NOW + 3599)[-1], Wait)
    intents = seen(volume_resize, action(status=running()), quiet, FAST, now=NOW + 3600)
    assert reason_of(status_of(intents)) == ("Failed", "False", "NotResized")


def test_a_claim_that_is_resized_forever_is_not_waited_for_forever() -> None:
    busy = bound(asks="400Mi")
    (wait,) = seen(volume_resize, action(), busy, FAST, now=NOW + 540)
    assert isinstance(wait, Wait)
    assert wait.seconds == 60
    intents = seen(volume_resize, action(), busy, FAST, now=NOW + 600)
    assert reason_of(status_of(intents)) == ("Failed", "False", "ResizeInProgress")
