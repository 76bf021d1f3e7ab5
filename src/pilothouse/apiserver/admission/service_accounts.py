"""The service account of a new pod and the volume with its token, as Kubernetes adds them.

The default is ``default``, which is created here if no controller has done so. Unless pod or account opt out,
each container gets a bound token, the CA certificates and the namespace at
``/var/run/secrets/kubernetes.io/serviceaccount``.
"""

from __future__ import annotations

from random import Random
from typing import Any

from pilothouse.apiserver.discovery.catalog import KindCatalog, ServedVersion
from pilothouse.apiserver.endpoints import object_metadata, strict_decoding
from pilothouse.apiserver.endpoints.call import ResourceRequest
from pilothouse.apiserver.storage import codec
from pilothouse.apiserver.storage.objects import ObjectStorage
from pilothouse.base.clock import Clock
from pilothouse.base.uids import Uids
from pilothouse.meta import errors, names
from pilothouse.meta.kind import Object
from pilothouse.store.interface import Conflict

DEFAULT = "default"
MOUNT_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"
VOLUME_PREFIX = "kube-api-access-"
ROOT_CERTIFICATES = "kube-root-ca.crt"
"""The config map of a namespace that holds the certificates to trust."""
TOKEN_SECONDS = 3607
"""An hour, and a few seconds that distinguish such tokens from requested ones."""
_READABLE = 0o644


class ServiceAccounts:
    def __init__(
        self, catalog: KindCatalog, objects: ObjectStorage, clock: Clock, random: Random, uids: Uids
    ) -> None:
        self._catalog = catalog
        self._objects = objects
        self._clock = clock
        self._random = random
        self._uids = uids

    async def complete(self, call: ResourceRequest, obj: Object) -> None:
        """Set a pod's account, pull secrets and token; 403 if there is no such account."""
        kind = call.served.kind
        if kind.group or kind.name != "Pod":
            return
        spec = obj["spec"]
        name = spec.get("serviceAccountName") or DEFAULT
        account = await self._account(call, name, obj["metadata"].get("name", ""))
        spec["serviceAccountName"] = spec["serviceAccount"] = name
        if not spec.get("imagePullSecrets") and account.get("imagePullSecrets"):
            spec["imagePullSecrets"] = account["imagePullSecrets"]
        if _wants_token(spec, account):
            mount_token(spec, names.generate_name(VOLUME_PREFIX, self._random))

    async def _account(self, call: ResourceRequest, name: str, pod: str) -> Object:
        served = self._catalog.find("", "v1", "serviceaccounts")
        if served is None:
            return {}
        found = await self._objects.glance(served.key(call.namespace, name))
        if found is not None:
            return codec.decode(found.value)
        if name != DEFAULT:
            detail = (
                f'error looking up service account {call.namespace}/{name}: serviceaccount "{name}" not found'
            )
            raise errors.forbidden("pods", "", pod, detail)
        if "dryRun" not in call.params:
            await self._make_default(served, call.namespace)
        return {}

    async def _make_default(self, served: ServedVersion, namespace: str) -> None:
        account: Object = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": DEFAULT}}
        strict_decoding.conform(served.kind, account, "Strict", [])
        object_metadata.begin(
            served.kind, account, namespace=namespace, uid=self._uids.new(), now=self._clock.now()
        )
        try:
            await self._objects.create(served, served.key(namespace, DEFAULT), account)
        except Conflict:
            return  # Somebody else had the same idea.


def mount_token(spec: Object, volume: str) -> None:
    """Add the token's volume, and a mount of it to each container that has nothing in its place."""
    bare = [
        container
        for field in ("initContainers", "containers")
        for container in spec.get(field) or ()
        if all(each.get("mountPath") != MOUNT_PATH for each in container.get("volumeMounts") or ())
    ]
    if not bare:
        return
    existing = (each["name"] for each in spec.get("volumes") or () if each["name"].startswith(VOLUME_PREFIX))
    name = next(existing, None)
    if name is None:
        name = volume
        spec["volumes"] = [*(spec.get("volumes") or ()), token_volume(name)]
    mount = {"name": name, "readOnly": True, "mountPath": MOUNT_PATH}
    for container in bare:
        container["volumeMounts"] = [*(container.get("volumeMounts") or ()), dict(mount)]


def token_volume(name: str) -> dict[str, Any]:
    """The projected volume with which a process in a pod reaches this server."""
    certificates = {"name": ROOT_CERTIFICATES, "items": [{"key": "ca.crt", "path": "ca.crt"}]}
    place = {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
    return {
        "name": name,
        "projected": {
            "defaultMode": _READABLE,
            "sources": [
                {"serviceAccountToken": {"expirationSeconds": TOKEN_SECONDS, "path": "token"}},
                {"configMap": certificates},
                {"downwardAPI": {"items": [place]}},
            ],
        },
    }


def _wants_token(spec: Object, account: Object) -> bool:
    """The pod's setting, then its account's; the default is yes."""
    for said in (spec.get("automountServiceAccountToken"), account.get("automountServiceAccountToken")):
        if said is not None:
            return bool(said)
    return True
