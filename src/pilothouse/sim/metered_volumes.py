"""Modelled volumes that fill, grow late or not at all, and a provider of their metrics that may fail or lie.

    volumes = MeteredVolumes(server.api("volumes"), clock, random.Random(7))
    await volumes.run()                        # until cancelled
    await volumes.query(["usage"], now)        # percent of each volume, by claim

What is to happen is in the ConfigMap ``model``: the data of each claim in GiB (``data-c0: "10"``), whether
``metrics`` are ok, away, empty, stale or lies, and whether ``volumes`` grow or refuse to. The model binds
claims, and answers ActionApprovals as a person would, after a while.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from random import Random
from typing import Final

import msgspec

from pilothouse.api.kind_names import ActionApproval, ConfigMap, PersistentVolumeClaim
from pilothouse.api.objects import Object
from pilothouse.api.openstorage.v1alpha1 import ActionBudget
from pilothouse.base.clock import Clock
from pilothouse.base.quantity import parse_quantity
from pilothouse.client.api import Api
from pilothouse.client.shared_informers import SharedInformers
from pilothouse.client.transport import TransportError
from pilothouse.meta.errors import StatusError
from pilothouse.rules.join_labels import DEFAULT_LABELS, JoinLabels
from pilothouse.rules.rule_controllers import rule_controllers
from pilothouse.rules.ruled_objects import RuleSettings
from pilothouse.rules.samples import Answer, MetricsProvider, QueryFailure, Sample
from pilothouse.runtime.controller import Controller
from pilothouse.runtime.manager import Observer

USAGE: Final = "usage"
"""The expression for how full a volume is, in percent."""
CAPACITY: Final = "capacity"
"""The expression for its size in GB, of a thousand million bytes."""
MODEL: Final = "model"
_PROVIDER: Final = "prometheus"
"""The provider of a rule that names none."""
_STEP: Final = 2.0
_GIB: Final = 1024**3


class ModelledProvider(msgspec.Struct, frozen=True):
    provider: MetricsProvider
    labels: JoinLabels = DEFAULT_LABELS


class MeteredVolumes:
    def __init__(
        self,
        api: Api,
        clock: Clock,
        rng: Random,
        *,
        namespace: str = "db",
        step: float = _STEP,
        settings: RuleSettings = RuleSettings(),
    ) -> None:
        self._api = api
        self._clock = clock
        self._rng = rng
        self._namespace = namespace
        self._settings = settings
        self._step_seconds = step
        self._model: Mapping[str, str] = {}
        self._claims: Sequence[Object] = ()
        self._due: dict[str, float] = {}
        """When a volume has grown or an approval is decided, by uid and size."""
        self._stale: list[Sample] = []
        self.series: dict[str, Sequence[tuple[Mapping[str, str], float]]] = {}
        """Labels and values of further expressions, such as those of devices."""
        self.failures: dict[str, QueryFailure] = {}
        """Why an expression has no answer."""
        self.budget: ActionBudget | None = None
        """Of all rules together."""
        self.others: dict[str, MetricsProvider] = {}
        """Further providers, by name."""
        self.asked: list[tuple[str, ...]] = []
        """The expressions of each query."""

    @property
    def controllers(self) -> Sequence[Controller]:
        return rule_controllers(self, self._settings, lambda: self.budget)

    def observers(self, api: Api, informers: SharedInformers, clock: Clock) -> Mapping[str, Observer]:
        return {}

    def get(self, name: str) -> ModelledProvider | None:
        found = self if name == _PROVIDER else self.others.get(name)
        return ModelledProvider(found) if found is not None else None

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            # The server is down, or another client has changed the object.
            with suppress(StatusError, TransportError):
                await self._step()
            await asyncio.sleep(self._step_seconds)

    async def query(self, expressions: Sequence[str], now: float) -> Mapping[str, Answer]:
        self.asked.append(tuple(expressions))
        match self._model.get("metrics", "ok"):
            case "away":
                failure = QueryFailure("ProviderUnavailable", "the provider does not answer")
                return dict.fromkeys(expressions, failure)
            case "empty":
                return dict.fromkeys(expressions, ())
            case "stale":
                return {text: tuple(self._stale) for text in expressions}
            case "lies":
                return {text: [self._sample(one, self._lie(), now) for one in self._claims]
                        for text in expressions}  # fmt: skip
            case _:
                answers = {text: self._measured(text, now) for text in expressions}
                self._stale = answers.get(USAGE, self._stale)
                return {text: self.failures.get(text, answer) for text, answer in answers.items()}

    def _measured(self, text: str, now: float) -> list[Sample]:
        """By the clock of the manager that asks, as if it had scraped them itself."""
        if (further := self.series.get(text)) is not None:
            return [Sample(labels, value, now) for labels, value in further]
        return [self._sample(one, _value(text, one, self._used(one)), now) for one in self._claims]

    def _used(self, claim: Object) -> float:
        return float(self._model.get(f"data-{claim.name}", "0"))

    def _lie(self) -> float:
        return self._rng.choice((math.nan, math.inf, -5.0, 0.0, 51.0, 99.0, 1e9))

    def _sample(self, claim: Object, value: float, now: float) -> Sample:
        labels = {"namespace": claim.namespace, "persistentvolumeclaim": claim.name}
        return Sample(labels, value, now)

    async def _step(self) -> None:
        model = await self._api.find(ConfigMap, MODEL, self._namespace)
        self._model = model.tree.get("data") or {} if model is not None else {}
        claims = (await self._api.list(PersistentVolumeClaim, self._namespace)).objects
        self._claims = [one for one in claims if one.at("status", "phase") == "Bound"]
        for claim in claims:
            await self._serve(claim)
        for approval in (await self._api.list(ActionApproval, self._namespace)).objects:
            await self._answer(approval)

    async def _serve(self, claim: Object) -> None:
        requested = claim.at("spec", "resources", "requests", "storage")
        if not claim.spec.get("volumeName"):
            fields = {"spec": {"volumeName": f"pvc-{claim.uid}"}}
            await self._api.patch(PersistentVolumeClaim, claim.name, claim.namespace, fields)
        elif claim.at("status", "phase") != "Bound":
            await self._set(claim, {"phase": "Bound", "capacity": {"storage": requested}})
        elif _size(requested) > _size(claim.at("status", "capacity", "storage")):
            refuses = self._model.get("volumes") == "refuses"
            if not refuses and self._is_due(f"{claim.uid} {requested}", 1.0, 15.0):
                await self._set(claim, {"capacity": {"storage": requested}})

    async def _answer(self, approval: Object) -> None:
        state, uid = approval.spec.get("approvalState"), approval.uid
        if state == "pending" and approval.status.get("target"):
            if self._is_due(f"{uid} decided", 2.0, 30.0):
                wanted = self._model.get("approvals") or self._rng.choice(
                    ("approved", "approved", "declined")
                )
                fields = {"spec": {"approvalState": wanted}}
                await self._api.patch(ActionApproval, approval.name, approval.namespace, fields)
        elif state == "declined" and self._is_due(f"{uid} deleted", 10.0, 40.0):
            await self._api.delete(ActionApproval, approval.name, approval.namespace, uid=uid)

    async def _set(self, claim: Object, status: Mapping[str, object]) -> None:
        fields = {"status": dict(status)}
        await self._api.patch(
            PersistentVolumeClaim, claim.name, claim.namespace, fields, subresource="status"
        )

    def _is_due(self, what: str, least: float, most: float) -> bool:
        now = self._clock.monotonic()
        return now >= self._due.setdefault(what, now + self._rng.uniform(least, most))


def _value(text: str, claim: Object, used: float) -> float:
    capacity = _size(claim.at("status", "capacity", "storage"))
    return capacity / 1e9 if text == CAPACITY else 100 * used * _GIB / capacity


def _size(text: str) -> int:
    return parse_quantity(text).to_int()
