"""The security of a cluster: its Secrets, what its pods mount of them, and the condition ``Secured``.

    security = security_of(cluster, world)
    security.missing          # why no node can start yet; empty if nothing is missing
    security.unrenewable      # reason and message why its certificate can't be renewed
    security.digest           # of the nodes' certificates: pods with other ones are replaced

There are three Secrets: ``<base>-authority``, with which ``secrets_controller`` signs and which no pod sees;
``<base>-certificates`` and ``<base>-users``, which are mounted. None of them has the cluster's label, since
pilots may read what has it.
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
"""The user of Elasticsearch that pilots log in as: the one built in."""
AUTHORITY, CERTIFICATE, KEY = "ca.crt", "tls.crt", "tls.key"
GONE, UNUSABLE = "AuthorityGone", "AuthorityUnusable"
"""What may be wrong with an authority."""
RESTORING: Final = "restore it from a backup: the nodes would not trust another one"
"""What would help then."""
_DOMAIN: Final = "cluster.local"
_LENGTH: Final = 16


class ClusterSecurity(msgspec.Struct, frozen=True):
    """The state of a cluster's security."""

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
    problems = [
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
        missing="; ".join(filter(None, problems)),
        unrenewable=_unrenewable(cluster, world, found),
    )


def is_predecessors(secret: Object | None, cluster: Object) -> bool:
    """Whether it belongs to an earlier cluster of this name, and is about to be garbage-collected."""
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
    """The names in the nodes' certificate: the service that clients use, and each node."""
    base, space = base_name(cluster), cluster.namespace
    own = f"*.{discovery_name(cluster)}.{space}.svc"
    service = (base, f"{base}.{space}", f"{base}.{space}.svc", f"{base}.{space}.svc.{_DOMAIN}")
    return [*service, own, f"{own}.{_DOMAIN}", "localhost"]


def content(secret: Object | None, key: str) -> bytes:
    """The value of a key; empty if it is missing or unreadable."""
    value = (secret.get("data") or {}).get(key) if secret is not None else None
    try:
        return base64.b64decode(value or "", validate=True)
    except binascii.Error:
        return b""


def secured(security: ClusterSecurity, pilots: Iterable[Object]) -> tuple[str, str, str, str]:
    """The condition: type, status, reason, message."""
    reports = {pilot.name: pilot.at("status", "elasticsearch", "security") for pilot in pilots}
    if without := sorted(name for name, state in reports.items() if state == "Absent"):
        return (
            "Secured",
            "False",
            "DistributionHasNoSecurity",
            f"{', '.join(without)}: the distribution of Elasticsearch in the image has no security, so it is "
            "not started. Use an image that has it (spec.image; Elastic's own do), or remove spec.security "
            "to run without.",
        )
    if security.missing:
        return "Secured", "False", "SecretMissing", f"No node can start: {security.missing}."
    if reports and all(state == "Enabled" for state in reports.values()):
        return (
            "Secured",
            "True",
            "Enabled",
            f"Connections of nodes and clients are encrypted; ca.crt is in Secret {security.certificates}, "
            f"the password of {USER} in {security.users}.",
        )
    return "Secured", "Unknown", "NodesStarting", "Not all nodes have reported yet that they are secured."


def _unrenewable(cluster: Object, world: Snapshot, certificates: Object | None) -> tuple[str, str] | None:
    """A trusted or unusable authority is never replaced: a person has to restore it."""
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
        remedy = (
            RESTORING
            if formed
            else f"delete it to have it created again, or put a certificate under {CERTIFICATE} "
            f"and its key under {KEY}"
        )
        return UNUSABLE, f"Secret {name} can't sign the certificate of the nodes: {problem}; {remedy}"
    return None


def _of_predecessor(cluster: Object, name: str, secret: Object | None) -> str:
    if not is_predecessors(secret, cluster):
        return ""
    return f"Secret {name} belongs to an earlier cluster {cluster.name}, and is about to be deleted"


def _lacking(name: str, secret: Object | None, keys: Iterable[str]) -> str:
    if secret is None:
        return f"Secret {name} does not exist"
    absent = [key for key in keys if not content(secret, key)]
    return f"Secret {name} has no {' and no '.join(absent)}" if absent else ""
