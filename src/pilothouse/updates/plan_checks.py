"""The answers that a plan's observer gets from the API server itself and from its controllers.

    checks = ServerChecks(api, probe)
    await checks.readiness()                    # of every ControlNode
    await checks.removed_apis("v1.32.0")        # RemovedApisAnswer(version="v1.32.0", message="")
    await checks.gate(gate)                     # GateAnswer(name="green", open=False, message="…")

Implements ``plan_observer.PlanChecks``. What can't be read is answered as not ready, lost, or shut.
"""

from __future__ import annotations

from collections.abc import Sequence

from pilothouse.api.k0s.release_versions import release_order
from pilothouse.api.k0s.removed_apis import RemovedApi, removed_by
from pilothouse.api.k0s.rollout import Gate
from pilothouse.api.k0s.v1beta2 import GateAnswer, ReadinessAnswer, RemovedApisAnswer
from pilothouse.api.kind_names import ControlNode, KindName
from pilothouse.api.objects import Object
from pilothouse.client.access import AccessError
from pilothouse.client.api import Api
from pilothouse.client.discovery import DiscoveredKinds, NoSuchKind, discover
from pilothouse.client.transport import TransportError
from pilothouse.meta.cel.expressions import CelError, CelExpression, Values, compile_rule
from pilothouse.meta.errors import StatusError
from pilothouse.meta.schema.model import ANY
from pilothouse.meta.versions import VersionError
from pilothouse.updates.readiness_probe import ReadinessProbe

_UNREADABLE = (StatusError, TransportError, AccessError)


class ServerChecks:
    def __init__(self, api: Api, probe: ReadinessProbe) -> None:
        self._api = api
        self._probe = probe

    async def readiness(self) -> tuple[ReadinessAnswer, ...]:
        try:
            found = await self._api.list(ControlNode)
        except _UNREADABLE as problem:
            message = f"the ControlNodes can't be listed: {problem}"
            return (ReadinessAnswer(name="", ready=False, message=message[:1024]),)
        return await self._probe.ask_all(sorted(found.objects, key=lambda each: each.name))

    async def removed_apis(self, version: str) -> RemovedApisAnswer:
        try:
            release_order(version)
        except VersionError:
            # Not a version of Kubernetes, which removes nothing.
            return RemovedApisAnswer(version=version)
        try:
            kinds = await discover(self._api)
            served = {(each.noun.group, each.noun.version, each.noun.kind) for each in kinds.served}
            for api in removed_by(version, served):
                if count := await self._lost(api, kinds):
                    return RemovedApisAnswer(version=version, message=api.warning(count))
        except (*_UNREADABLE, NoSuchKind) as problem:
            message = f"whether {version} removes APIs that are in use is not known: {problem}"
            return RemovedApisAnswer(version=version, message=message[:1024])
        return RemovedApisAnswer(version=version)

    async def _lost(self, api: RemovedApi, kinds: DiscoveredKinds) -> int:
        """How many objects there are, if any of them can't be read in another version; else 0."""
        noun = kinds.find(api.kind, group=api.group, version=api.version)
        found = (await self._api.list(noun)).objects
        if not found or not api.successor:
            return len(found)
        successor = kinds.find(api.kind, group=api.group, version=api.successor)
        for each in found:
            if await self._api.find(successor, each.name, each.namespace) is None:
                return len(found)
        return 0

    async def gate(self, gate: Gate) -> GateAnswer:
        try:
            expression = compile_rule(gate.expression, ANY)
            noun = await self._noun(gate)
            objects = await self._objects(gate, noun)
        except (*_UNREADABLE, NoSuchKind, CelError) as problem:
            return GateAnswer(name=gate.name, open=False, message=str(problem)[:1024])
        return _gate_answer(gate, expression, objects)

    async def _noun(self, gate: Gate) -> KindName:
        group, _, version = gate.api_version.rpartition("/")
        if (group, gate.kind) == ("", "Secret"):
            raise NoSuchKind("a gate does not look at Secrets: users who may write plans may not read them")
        return (await discover(self._api)).find(gate.kind, group=group, version=version)

    async def _objects(self, gate: Gate, noun: KindName) -> Sequence[Object]:
        if gate.object_name:
            return [await self._api.get(noun, gate.object_name, gate.namespace)]
        return (await self._api.list(noun, gate.namespace, labels=gate.labels)).objects


def _gate_answer(gate: Gate, expression: CelExpression, objects: Sequence[Object]) -> GateAnswer:
    if not objects:
        return GateAnswer(name=gate.name, open=False, message=f"there is no {gate.kind} to look at")
    for one in objects:
        where = f"{one.namespace}/{one.name}" if one.namespace else one.name
        try:
            holds = expression.evaluate(Values(one.tree))
        except CelError:
            # The error may quote a value, which may be a secret of somebody else.
            message = f"{gate.kind} {where}: {gate.expression} fails; does the object have these fields?"
            return GateAnswer(name=gate.name, open=False, message=message[:1024])
        if holds is not True:
            # The result itself stays out of the message: it may be a field of a Secret.
            message = f"{gate.kind} {where}: {gate.expression} is not true"
            return GateAnswer(name=gate.name, open=False, message=message[:1024])
    return GateAnswer(name=gate.name, open=True)
