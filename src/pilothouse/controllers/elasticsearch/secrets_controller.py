"""The Secrets of clusters that ask for security: made once, kept, and their certificate renewed in time.

    controllers = [..., elasticsearch_secrets(RandomSecrets())]

An authority of the cluster's own signs one certificate for all its nodes. When that is about to expire it is made anew, and the cluster's controller makes the
pods anew one by one. A Secret that somebody has made himself, under whatever name, is used as it is.

What nodes already trust, or know, is not replaced: once a cluster is formed, an authority or a password that is gone is
told, not made again. New ones would shut out the nodes that have the old ones.
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

LOOK_AGAIN: Final = 24 * 3600.0
"""Seconds between two looks at how long a certificate lasts."""
_TLS: Final = "kubernetes.io/tls"
_LETTERS: Final = 24


class SecretGenerator(Protocol):
    """Who makes what nobody can guess."""

    def authority(self, name: str, now: datetime.datetime) -> KeyPair: ...

    def password(self) -> str: ...


class RandomSecrets:
    """From the system's own randomness."""

    def authority(self, name: str, now: datetime.datetime) -> KeyPair:
        return Authority.make(name, now).credential

    def password(self) -> str:
        return secrets.token_urlsafe(_LETTERS)


def elasticsearch_secrets(forge: SecretGenerator) -> Controller:
    @controller(ElasticsearchCluster, owns=Secret, name="elasticsearch-secrets")
    def decide(cluster: Object, world: Snapshot) -> Iterator[Intent]:
        """A cluster that asks for security has its Secrets, and a certificate that lasts."""
        asked = cluster.spec.get("security")
        if asked is None or cluster.deleting or cluster.spec.get("paused"):
            return
        if not asked.get("usersSecretName"):
            yield from _users(cluster, world, forge)
        if not asked.get("certificatesSecretName"):
            yield from _certificates(cluster, world, forge)

    return decide


def _users(cluster: Object, world: Snapshot, forge: SecretGenerator) -> Iterator[Intent]:
    name = users_name(cluster)
    if world.find(Secret, cluster.namespace, name) is not None:
        return
    if _is_formed(cluster):
        yield Wait(
            "SecretGone",
            because=f"Secret {name} is gone, and Elasticsearch goes on knowing the password that was in it",
            remedy=f"make it again, with that password under the key {USER}",
        )
        return
    yield _made(cluster, name, "Opaque", {USER: forge.password().encode()})


def _certificates(cluster: Object, world: Snapshot, forge: SecretGenerator) -> Iterator[Intent]:
    now = datetime.datetime.fromtimestamp(world.now, datetime.UTC)
    space, name, of_authority = cluster.namespace, certificates_name(cluster), authority_name(cluster)
    found = world.find(Secret, space, name)
    if found is not None and not found.owned_by(cluster):
        return
    kept = world.find(Secret, space, of_authority)
    if is_predecessors(kept, cluster):
        # What it signs could never be renewed once it is gone.
        yield Wait(
            "SecretTerminating", because=f"Secret {of_authority} is of an earlier cluster, and is about to go"
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
        credential = forge.authority(f"elasticsearch {space}/{cluster.name}", now)
        yield _made(cluster, of_authority, _TLS, {CERTIFICATE: credential.certificate, KEY: credential.key})
    else:
        credential = KeyPair(content(kept, CERTIFICATE), content(kept, KEY))
    try:
        authority = Authority(credential)
        present = KeyPair(content(found, CERTIFICATE), content(found, KEY))
        if found is not None and authority.stands_behind(present, now):
            yield RequeueAfter(LOOK_AGAIN, because="a certificate lasts only so long")
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
        yield _made(cluster, name, _TLS, data)
        return
    tree = found.thawed()
    tree["data"] = {**(tree.get("data") or {}), **_encoded(data)}
    yield Update(found, tree, because=f"the certificate in {name} is about to expire, and is made anew")


def _is_formed(cluster: Object) -> bool:
    return bool(cluster.status.get("clusterUUID"))


def _made(cluster: Object, name: str, kind: str, data: Mapping[str, bytes]) -> Create:
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
