"""The controller of the Secrets of clusters with security: created once, kept, their certificate renewed in
time.

    controllers = [..., elasticsearch_secrets(RandomSecrets())]

Each cluster has an authority, which signs one certificate for all its nodes. When the certificate is about to
expire it is renewed, and the cluster's controller replaces the pods one by one. A Secret that a user created,
under whatever name, is used as it is.

Once a cluster has formed, an authority or a password that is gone is reported, not created again: another one
would shut out the nodes that have the first.
"""

from __future__ import annotations

import base64
import datetime
import secrets
from collections.abc import Iterator, Mapping
from typing import Final, Protocol

from pilothouse.api.kind_names import ElasticsearchCluster, Secret
from pilothouse.api.objects import Object, Tree, owner_reference
from pilothouse.controllers.elasticsearch.desired.security import (
    AUTHORITY,
    CERTIFICATE,
    GONE,
    KEY,
    RESTORING,
    UNUSABLE,
    USER,
    authority_name,
    certificates_name,
    content,
    is_predecessors,
    node_names,
    users_name,
)
from pilothouse.pki.authority import Authority, KeyPair, UnusableError
from pilothouse.runtime.controller import Controller, controller
from pilothouse.runtime.intents import Create, Intent, RequeueAfter, Update, Wait
from pilothouse.runtime.snapshot import Snapshot

CHECK_PERIOD: Final = 24 * 3600.0
"""Seconds between two checks of the expiry of a certificate."""
_TLS: Final = "kubernetes.io/tls"
_LETTERS: Final = 24


class SecretGenerator(Protocol):
    """Generates keys and passwords."""

    def authority(self, name: str, now: datetime.datetime) -> KeyPair: ...

    def password(self) -> str: ...


class RandomSecrets:
    """From the randomness of the system."""

    def authority(self, name: str, now: datetime.datetime) -> KeyPair:
        return Authority.make(name, now).credential

    def password(self) -> str:
        return secrets.token_urlsafe(_LETTERS)


def elasticsearch_secrets(generator: SecretGenerator) -> Controller:
    @controller(ElasticsearchCluster, owns=Secret, name="elasticsearch-secrets")
    def decide(cluster: Object, world: Snapshot) -> Iterator[Intent]:
        """Create the Secrets of a cluster with security, and renew its certificate."""
        asked = cluster.spec.get("security")
        if asked is None or cluster.deleting or cluster.spec.get("paused"):
            return
        if not asked.get("usersSecretName"):
            yield from _users(cluster, world, generator)
        if not asked.get("certificatesSecretName"):
            yield from _certificates(cluster, world, generator)

    return decide


def _users(cluster: Object, world: Snapshot, generator: SecretGenerator) -> Iterator[Intent]:
    name = users_name(cluster)
    if world.find(Secret, cluster.namespace, name) is not None:
        return
    if _is_formed(cluster):
        yield Wait(
            "SecretGone",
            because=f"Secret {name} is gone, but Elasticsearch still has the password that was in it",
            remedy=f"create it again, with that password under the key {USER}",
        )
        return
    yield _new_secret(cluster, name, "Opaque", {USER: generator.password().encode()})


def _certificates(cluster: Object, world: Snapshot, generator: SecretGenerator) -> Iterator[Intent]:
    now = datetime.datetime.fromtimestamp(world.now, datetime.UTC)
    space, name, of_authority = cluster.namespace, certificates_name(cluster), authority_name(cluster)
    found = world.find(Secret, space, name)
    if found is not None and not found.owned_by(cluster):
        return
    kept = world.find(Secret, space, of_authority)
    if is_predecessors(kept, cluster):
        # Once it is deleted, what it has signed could never be renewed.
        yield Wait(
            "SecretTerminating",
            because=f"Secret {of_authority} belongs to an earlier cluster, and is about to be deleted",
        )
        return
    if kept is None and (found is not None or _is_formed(cluster)):
        yield Wait(
            GONE,
            because=f"Secret {of_authority} is gone, so the certificate of the nodes can't be renewed",
            remedy=RESTORING,
        )
        return
    if kept is None:
        credential = generator.authority(f"elasticsearch {space}/{cluster.name}", now)
        yield _new_secret(
            cluster, of_authority, _TLS, {CERTIFICATE: credential.certificate, KEY: credential.key}
        )
    else:
        credential = KeyPair(content(kept, CERTIFICATE), content(kept, KEY))
    try:
        authority = Authority(credential)
        present = KeyPair(content(found, CERTIFICATE), content(found, KEY))
        if found is not None and authority.stands_behind(present, now):
            yield RequeueAfter(CHECK_PERIOD, because="to renew the certificate before it expires")
            return
        signed = authority.peer(f"es-{cluster.name}", node_names(cluster), now)
    except UnusableError as problem:
        yield Wait(
            UNUSABLE,
            because=f"Secret {of_authority} can't sign the certificate of the nodes: {problem}",
            remedy=RESTORING,
        )
        return
    data = {AUTHORITY: authority.certificate, CERTIFICATE: signed.certificate, KEY: signed.key}
    if found is None:
        yield _new_secret(cluster, name, _TLS, data)
        return
    tree = found.thawed()
    tree["data"] = {**(tree.get("data") or {}), **_encoded(data)}
    yield Update(found, tree, because=f"renewing the certificate in {name}, which is about to expire")


def _is_formed(cluster: Object) -> bool:
    return bool(cluster.status.get("clusterUUID"))


def _new_secret(cluster: Object, name: str, kind: str, data: Mapping[str, bytes]) -> Create:
    tree: Tree = {
        "apiVersion": Secret.api_version,
        "kind": Secret.kind,
        "metadata": {
            "name": name,
            "namespace": cluster.namespace,
            "ownerReferences": [owner_reference(cluster)],
        },
        "type": kind,
        "data": _encoded(data),
    }
    return Create(tree, because=f"Secret {name} is missing")


def _encoded(data: Mapping[str, bytes]) -> Tree:
    return {key: base64.b64encode(value).decode() for key, value in data.items()}
