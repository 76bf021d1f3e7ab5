"""ClusterSecurity that a cluster asks for: its Secrets, what its pods are given of them, and what is said of it.

    security = security_of(cluster, world)
    security.missing          # why no node can be started yet, in words; empty if nothing is in the way
    security.unrenewable      # reason and words why its certificate can't be made anew when it expires; nodes can be started until then
    security.digest           # of the nodes' certificates: pods that were made with others are made anew

There are three Secrets, by ``<base>`` of the cluster's name: ``<base>-authority``, with which ``forging`` signs and which no pod sees;
``<base>-certificates`` and ``<base>-users``, which are mounted. None of them has the cluster's label: what has it, pilots may read.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Iterable
from typing import Final

import msgspec

from pilothouse.api.kind_names import Secret
from pilothouse.api.objects import Object
from pilothouse.controllers.elasticsearch.desired.pools import base_name, discovery_name
from pilothouse.pki.authority import Authority, KeyPair, UnusableError
from pilothouse.runtime.snapshot import Snapshot

USER: Final = "elastic"
"""Who pilots are to Elasticsearch: the one user that it has from the start."""
AUTHORITY, CERTIFICATE, KEY = "ca.crt", "tls.crt", "tls.key"
GONE, UNUSABLE = "AuthorityGone", "AuthorityUnusable"
"""What may be the matter with an authority."""
RESTORING: Final = (
    "restore it from a backup: one that is made anew would not be trusted by the nodes there are"
)
"""What helps then."""
_DOMAIN: Final = "cluster.local"
_LENGTH: Final = 16


class ClusterSecurity(msgspec.Struct, frozen=True):
    """What a cluster has of what it asks for."""

    asked: bool = False
    certificates: str = ""
    users: str = ""
    """The names of the Secrets that are mounted."""
    digest: str = ""
    missing: str = ""
    unrenewable: tuple[str, str] | None = None


NONE: Final = ClusterSecurity()


def security_of(cluster: Object, world: Snapshot) -> ClusterSecurity:
    if cluster.spec.get("security") is None:
        return NONE
    certificates, users = certificates_name(cluster), users_name(cluster)
    found = world.find(Secret, cluster.namespace, certificates)
    known = world.find(Secret, cluster.namespace, users)
    said = [
        _of_predecessor(cluster, certificates, found)
        or _lacking(certificates, found, (AUTHORITY, CERTIFICATE, KEY)),
        _of_predecessor(cluster, users, known) or _lacking(users, known, (USER,)),
    ]
    parts = [content(found, key) for key in (AUTHORITY, CERTIFICATE)]
    return ClusterSecurity(
        asked=True,
        certificates=certificates,
        users=users,
        digest=hashlib.sha256(b"\0".join(parts)).hexdigest()[:_LENGTH] if all(parts) else "",
        missing="; ".join(filter(None, said)),
        unrenewable=_unrenewable(cluster, world, found),
    )


def is_predecessors(secret: Object | None, cluster: Object) -> bool:
    """Whether it is of a cluster of this name that was here before, and about to go after it."""
    owner = (secret.controller if secret is not None else None) or {}
    return (owner.get("kind"), owner.get("name")) == (cluster.kind, cluster.name) and owner.get(
        "uid"
    ) != cluster.uid


def authority_name(cluster: Object) -> str:
    return f"{base_name(cluster)}-authority"


def certificates_name(cluster: Object) -> str:
    given = (cluster.spec.get("security") or {}).get("certificatesSecretName")
    return str(given or f"{base_name(cluster)}-certificates")


def users_name(cluster: Object) -> str:
    given = (cluster.spec.get("security") or {}).get("usersSecretName")
    return str(given or f"{base_name(cluster)}-users")


def node_names(cluster: Object) -> list[str]:
    """What the nodes' certificate is good for: the service that clients use, and each node by its own name."""
    base, space = base_name(cluster), cluster.namespace
    own = f"*.{discovery_name(cluster)}.{space}.svc"
    service = (base, f"{base}.{space}", f"{base}.{space}.svc", f"{base}.{space}.svc.{_DOMAIN}")
    return [*service, own, f"{own}.{_DOMAIN}", "localhost"]


def content(secret: Object | None, key: str) -> bytes:
    """What a Secret has under a key; empty if nothing, or nothing that can be read."""
    said = (secret.get("data") or {}).get(key) if secret is not None else None
    try:
        return base64.b64decode(said or "", validate=True)
    except binascii.Error:
        return b""


def secured(security: ClusterSecurity, pilots: Iterable[Object]) -> tuple[str, str, str, str]:
    """The condition: type, status, reason, message."""
    reports = {pilot.name: pilot.at("status", "elasticsearch", "security") for pilot in pilots}
    if without := sorted(name for name, said in reports.items() if said == "Absent"):
        return (
            "Secured",
            "False",
            "DistributionHasNoSecurity",
            f"{', '.join(without)}: the distribution of Elasticsearch in the image has no security, so nothing is started from it. "
            "Take an image that has it (spec.image; Elastic's own do), or take spec.security out to run without.",
        )
    if security.missing:
        return "Secured", "False", "SecretMissing", f"No node can be started: {security.missing}."
    if reports and all(said == "Enabled" for said in reports.values()):
        return (
            "Secured",
            "True",
            "Enabled",
            f"Nodes and clients talk encrypted; ca.crt is in Secret {security.certificates}, the password of {USER} in {security.users}.",
        )
    return "Secured", "Unknown", "NodesStarting", "Not all nodes have said yet that they are secured."


def _unrenewable(cluster: Object, world: Snapshot, certificates: Object | None) -> tuple[str, str] | None:
    """An authority that nodes trust is not made again, so a person has to bring it back; nor is one replaced that can't be used, whoever made it."""
    brought = cluster.spec["security"].get("certificatesSecretName") or (
        certificates is not None and not certificates.owned_by(cluster)
    )
    name = authority_name(cluster)
    found = world.find(Secret, cluster.namespace, name)
    formed = cluster.status.get("clusterUUID")
    if brought or (found is None and not formed):
        return None
    if lacking := _lacking(name, found, (CERTIFICATE, KEY)):
        return GONE, f"{lacking}, so the certificate of the nodes can't be renewed; {RESTORING}"
    try:
        Authority(KeyPair(content(found, CERTIFICATE), content(found, KEY)))
    except UnusableError as problem:
        helping = (
            RESTORING
            if formed
            else f"delete it, and it is made anew, or put a certificate under {CERTIFICATE} and its key under {KEY}"
        )
        return UNUSABLE, f"Secret {name} can't sign the certificate of the nodes: {problem}; {helping}"
    return None


def _of_predecessor(cluster: Object, name: str, secret: Object | None) -> str:
    if not is_predecessors(secret, cluster):
        return ""
    return f"Secret {name} is of an earlier cluster {cluster.name}, and is about to go"


def _lacking(name: str, secret: Object | None, keys: Iterable[str]) -> str:
    if secret is None:
        return f"Secret {name} is not there"
    absent = [key for key in keys if not content(secret, key)]
    return f"Secret {name} has no {' and no '.join(absent)}" if absent else ""
