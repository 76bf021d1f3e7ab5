"""The identity of a pod of a set: its ordinal, and what follows from it.

pod_name(set, 2)                    # "web-2"
ordinal_of("web", "web-2")          # 2; None for a name that is not one of the set's
new_pod(set, wanted, template, revision, 2)
"""

from __future__ import annotations

import re
from typing import Final

from pilothouse.api.objects import Object, Tree, owner_reference
from pilothouse.controllers.stateful_sets.set_spec import SetSpec

POD_NAME: Final = "statefulset.kubernetes.io/pod-name"
POD_INDEX: Final = "apps.kubernetes.io/pod-index"
REVISION: Final = "controller-revision-hash"
_MEMBER: Final = re.compile(r"(.+)-(0|[1-9][0-9]{0,9})", re.ASCII)
_MOST: Final = 2**31 - 1


def pod_name(stateful_set: Object, ordinal: int) -> str:
    return f"{stateful_set.name}-{ordinal}"


def claim_name(stateful_set: Object, template: str, ordinal: int) -> str:
    return f"{template}-{stateful_set.name}-{ordinal}"


def split(name: str) -> tuple[str, int] | None:
    """The prefix and the ordinal of a name; None if it doesn't end in one."""
    match = _MEMBER.fullmatch(name)
    if match is None or int(match[2]) > _MOST:
        return None
    return match[1], int(match[2])


def ordinal_of(set_name: str, name: str) -> int | None:
    """The ordinal in a pod's name, if it is the name of a pod of this set."""
    parts = split(name)
    return parts[1] if parts is not None and parts[0] == set_name else None


def revision_of(pod: Object) -> str:
    return pod.labels.get(REVISION, "")


def marks(name: str, ordinal: int) -> dict[str, str]:
    """The labels that identify one pod of a set."""
    return {POD_NAME: name, POD_INDEX: str(ordinal)}


def new_pod(stateful_set: Object, wanted: SetSpec, template: Tree, revision: str, ordinal: int) -> Tree:
    """The pod of an ordinal, from the template of a revision."""
    name = pod_name(stateful_set, ordinal)
    given = template.get("metadata") or {}
    metadata = {field: given[field] for field in ("annotations", "finalizers") if given.get(field)}
    own = {
        claim["metadata"]["name"]: claim_name(stateful_set, claim["metadata"]["name"], ordinal)
        for claim in wanted.claim_templates
    }
    spec = template.get("spec") or {}
    volumes = [
        *({"name": volume, "persistentVolumeClaim": {"claimName": claim}} for volume, claim in own.items()),
        *(volume for volume in spec.get("volumes") or () if volume.get("name") not in own),
    ]
    pod: Tree = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            **metadata,
            "name": name,
            "generateName": f"{stateful_set.name}-",
            "namespace": stateful_set.namespace,
            "labels": {**(given.get("labels") or {}), **marks(name, ordinal), REVISION: revision},
            "ownerReferences": [owner_reference(stateful_set)],
        },
        "spec": {**spec, "hostname": name},
    }
    if volumes:
        pod["spec"]["volumes"] = volumes
    if wanted.service:
        pod["spec"]["subdomain"] = wanted.service
    return pod


def uses_its_claims(stateful_set: Object, wanted: SetSpec, pod: Object, ordinal: int) -> bool:
    """True if each claim template of the set is the pod's own volume."""
    used = {
        volume.get("name"): (volume.get("persistentVolumeClaim") or {}).get("claimName")
        for volume in pod.spec.get("volumes") or ()
    }
    return all(
        used.get(claim["metadata"]["name"]) == claim_name(stateful_set, claim["metadata"]["name"], ordinal)
        for claim in wanted.claim_templates
    )
