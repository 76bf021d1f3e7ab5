"""What the claim and the volume say of a move, and what they ask of it.

    status = MoveStatus(api, claims, clock)
    await status.is_wanted(subject, move)        # the claim asks for the move, and the class exists
    await status.report(subject, move, "Copying", "12 % copied")
    await status.report_class(subject, move)     # claim and volume have the class

Only fields that differ are written, and the version that was read is changed, no other.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from pilothouse.api.kind_names import PersistentVolume, PersistentVolumeClaim, VolumeAttributesClass
from pilothouse.api.objects import Object, Tree
from pilothouse.base.clock import Clock
from pilothouse.client.access import AccessError
from pilothouse.client.api import Api
from pilothouse.client.transport import TransportError
from pilothouse.meta.errors import StatusError
from pilothouse.node.volumes import claim_statuses
from pilothouse.node.volumes.claim_volumes import ClaimVolumes
from pilothouse.node.volumes.move_journal import MoveRecord
from pilothouse.node.volumes.move_plan import is_wanted
from pilothouse.node.volumes.volume_backend import VolumeBackend, VolumeBackendError

_WRITES: Final = 3
"""How often a status is written that others change meanwhile."""

log = logging.getLogger(__name__)


class MovedVolume(msgspec.Struct, frozen=True):
    """The volume that a move is about."""

    name: str
    home: Path
    backend: VolumeBackend
    namespace: str
    claim: str
    claim_uid: str


class MoveStatus:
    """All methods raise StatusError, TransportError or AccessError."""

    def __init__(self, api: Api, claims: ClaimVolumes, clock: Clock) -> None:
        self._api = api
        self._claims = claims
        self._clock = clock

    async def find_claim(self, subject: MovedVolume) -> Object | None:
        claim = await self._api.find(PersistentVolumeClaim, subject.claim, subject.namespace)
        return claim if claim is not None and claim.uid == subject.claim_uid else None

    async def is_wanted(self, subject: MovedVolume, move: MoveRecord) -> bool:
        """Whether the claim still asks for the move. Raises VolumeBackendError if the class is gone."""
        try:
            if not is_wanted(move, await self.find_claim(subject)):
                return False
            await self.check_class(move)
            return True
        except (StatusError, TransportError, AccessError) as problem:
            log.warning("claim %s/%s can't be read: %s", subject.namespace, subject.claim, problem)
            return True

    async def check_class(self, move: MoveRecord) -> None:
        if await self._api.find(VolumeAttributesClass, move.attributes) is None:
            raise VolumeBackendError(f'volumeattributesclass.storage.k8s.io "{move.attributes}" not found')

    async def report(self, subject: MovedVolume, move: MoveRecord, reason: str, message: str) -> None:
        """Progress before the switch. The move goes on if it can't be written."""
        try:
            await self.write(
                subject,
                lambda claim: claim_statuses.moving(
                    claim.status, move.attributes, reason, message, self._clock.now()
                ),
            )
        except (StatusError, TransportError, AccessError) as problem:
            log.warning("the move of volume %s can't be reported: %s", subject.name, problem)

    async def report_kept(self, subject: MovedVolume, reason: str, message: str) -> None:
        await self.write(
            subject, lambda claim: claim_statuses.kept(claim.status, reason, message, self._clock.now())
        )

    async def report_class(self, subject: MovedVolume, move: MoveRecord) -> None:
        """The claim and the volume have the class that asked for the move."""
        await self.set_class(subject, move.attributes)
        await self.write(subject, lambda claim: claim_statuses.modified(claim.status, move.attributes))

    async def set_class(self, subject: MovedVolume, name: str) -> None:
        volume = await self._api.find(PersistentVolume, subject.name)
        if volume is not None:
            fields: Tree = {"spec": {"volumeAttributesClassName": name or None}}
            volume = await self._api.patch(PersistentVolume, subject.name, "", fields)
            await self._claims.limit(volume)

    async def write(self, subject: MovedVolume, fields: Callable[[Object], Tree]) -> None:
        """Write fields of the claim's status that differ, if the claim exists."""
        for attempt in range(_WRITES):
            claim = await self.find_claim(subject)
            if claim is None or claim_statuses.says_so(claim.status, status := fields(claim)):
                return
            body = {"metadata": {"resourceVersion": claim.resource_version}, "status": status}
            try:
                await self._api.patch(
                    PersistentVolumeClaim, claim.name, claim.namespace, body, subresource="status"
                )
                return
            except StatusError as refusal:
                if refusal.code != 409 or attempt == _WRITES - 1:
                    raise
