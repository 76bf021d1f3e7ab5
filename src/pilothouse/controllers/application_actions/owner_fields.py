"""Sizes of volumes that are set by their owner: the write to it, and the Role that lets it be made.

    owner = owner_of(action, claim, world)
    yield raised(owner, "spec.storage.size", "15Gi", because=…)

An owner whose kind is cached is patched as it was seen. Any other is read from the server when it is patched:
the size is raised, never lowered.
"""

from __future__ import annotations

from typing import Final

from pilothouse.api.applications.registry import BUILT_IN
from pilothouse.api.field_paths import merge_patch, value_at
from pilothouse.api.kind_names import Pod, StatefulSet, noun_of
from pilothouse.api.objects import Object
from pilothouse.api.owner_chain import Owner, topmost_owner
from pilothouse.base.quantity import parse_quantity
from pilothouse.controllers.application_actions.action_status import SERVICE_ACCOUNT
from pilothouse.runtime.intents import PatchObject
from pilothouse.runtime.snapshot import Snapshot

OWNER_READS: Final = (
    Pod,
    StatefulSet,
    *(each.cluster for each in BUILT_IN if each.cluster is not None and each.volume_size),
)
"""The kinds that an owner is found through."""


def owner_of(claim: Object, named: str, world: Snapshot) -> Owner | None:
    """The claim's topmost controller, if it is the one that was named, as ``Kind/name``, and of the claim's
    namespace: who may write a claim may name anything as its owner, which is no right to change that."""
    owner = topmost_owner(claim, world, readable=OWNER_READS)
    if owner is None or str(owner) != named or owner.namespace != claim.namespace:
        return None
    return owner if owner.is_spelt_well else None


def raised(owner: Owner, path: str, size: str, *, because: str) -> PatchObject:
    """Set a size of an owner."""
    if owner.object is not None:
        present = value_at(owner.object.tree, path)
        larger = present is not None and parse_quantity(present) >= parse_quantity(size)
        fields = merge_patch(owner.object.tree, path, present if larger else size)
        return PatchObject(owner.object, fields, exact=True, because=because)
    seen = Object.of(
        {
            "apiVersion": owner.api_version,
            "kind": owner.kind,
            "metadata": {"name": owner.name, "namespace": owner.namespace, "uid": owner.uid},
        }
    )
    return PatchObject(seen, merge_patch({}, path, size), raises=path, because=because)


def role_for(owner: Owner) -> str:
    """The Role and the binding that let executors write to an owner, in one line of YAML each."""
    noun = noun_of(owner.api_version, owner.kind)
    *_, namespace, name = SERVICE_ACCOUNT.split(":")
    meta = f"metadata: {{name: {name}, namespace: {owner.namespace}}}"
    version = "apiVersion: rbac.authorization.k8s.io/v1"
    rule = f"{{apiGroups: [{noun.group}], resources: [{noun.plural}], verbs: [get, patch]}}"
    role = f"{{{version}, kind: Role, {meta}, rules: [{rule}]}}"
    subject = f"{{kind: ServiceAccount, name: {name}, namespace: {namespace}}}"
    reference = f"{{apiGroup: rbac.authorization.k8s.io, kind: Role, name: {name}}}"
    bound = f"{{{version}, kind: RoleBinding, {meta}, roleRef: {reference}, subjects: [{subject}]}}"
    return f"if {name} may not change it, this lets it: {role} and {bound}"
