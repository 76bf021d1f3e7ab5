"""The StatefulSet of a pool, and the template of its pods.

    wanted_set(cluster, pool, version, security)["spec"]["template"]
    template_hash(template)                # also in the template's own annotations, and so on each pod

The template carries its version and a hash of itself in annotations, so each pod shows the template that it
was created from.
"""

from __future__ import annotations

import hashlib
from typing import Any, Final

import msgspec

from pilothouse.api.kind_names import StatefulSet
from pilothouse.api.navigator.elasticsearch import REPOSITORY
from pilothouse.api.navigator.labels import CERTIFICATES, TEMPLATE, VERSION
from pilothouse.api.objects import Object, Tree
from pilothouse.controllers.elasticsearch.desired.pools import (
    Pool,
    base_name,
    discovery_name,
    metadata,
    pool_labels,
    selecting_labels,
    set_name,
)
from pilothouse.controllers.elasticsearch.desired.security import ClusterSecurity

DATABASE: Final = "elasticsearch"
"""The name of the container that runs the database."""
DATA: Final = "elasticsearch-data"
"""The volume, and the claim template, of a node's data."""
_DATA_PATH: Final = "/usr/share/elasticsearch/data"
_IDENTITY: Final = {
    "POD_NAME": "metadata.name",
    "POD_NAMESPACE": "metadata.namespace",
    "POD_IP": "status.podIP",
}
"""How a pilot knows its pod and its address."""
_SHARED: Final = "shared"
_SHARED_PATH: Final = "/shared"
_STOPPING: Final = 1800
"""Seconds that a node has to stop: a database that is killed has to recover."""
_SECRETS: Final = "/etc/pilothouse/elasticsearch"
_INSTALLING: Final = {
    "requests": {"cpu": "10m", "memory": "50Mi"},
    "limits": {"cpu": "500m", "memory": "100Mi"},
}
"""It runs for a moment only; with a limit of 10m CPU it would take half a minute."""
READY_PORT: Final = 12001
LIVE_PORT: Final = 12000


def wanted_set(cluster: Object, pool: Pool, version: str, security: ClusterSecurity) -> Tree:
    """The StatefulSet to create for a pool."""
    spec: Tree = {
        "replicas": pool.replicas,
        # The discovery service has the DNS names of all pods.
        "serviceName": discovery_name(cluster),
        "selector": {"matchLabels": selecting_labels(cluster, pool)},
        "podManagementPolicy": "Parallel",
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
        "persistentVolumeClaimRetentionPolicy": retention(cluster),
        "template": wanted_template(cluster, pool, version, security, None),
    }
    if persistence := pool.spec.get("persistence"):
        spec["volumeClaimTemplates"] = [_claim(persistence)]
    meta = metadata(cluster, set_name(cluster, pool.name), pool_labels(cluster, pool))
    return {
        "apiVersion": StatefulSet.api_version,
        "kind": StatefulSet.kind,
        "metadata": {**meta, "annotations": {VERSION: version}},
        "spec": spec,
    }


def retention(cluster: Object) -> Tree:
    """The retention policy of claims: they are kept unless the spec says otherwise."""
    asked = cluster.spec.get("persistentVolumeClaimRetentionPolicy") or {}
    return {when: asked.get(when) or "Retain" for when in ("whenDeleted", "whenScaled")}


def wanted_template(
    cluster: Object, pool: Pool, version: str, security: ClusterSecurity, stateful_set: Object | None
) -> Tree:
    """The pod template of a pool, for a version.

    ``stateful_set`` is the set that the pool has, if it has one. Pods keep to the level ``restricted`` of the
    Pod Security Standards. A set that was created before they did stays as it is until its version changes:
    that alone restarts no node.
    """
    spec = _pod_spec(cluster, pool, version)
    if (
        stateful_set is None
        or annotation_of(stateful_set, VERSION) != version
        or _is_restricted(stateful_set)
    ):
        _restrict(spec)
    labels, annotations = pool_labels(cluster, pool), {VERSION: version}
    hashed = {"labels": labels, "spec": spec, "version": version}
    if security.asked:
        _mount_secrets(spec, security)
        annotations[CERTIFICATES] = hashed["certificates"] = security.digest
    annotations[TEMPLATE] = template_hash(hashed)
    return {"metadata": {"labels": labels, "annotations": annotations}, "spec": spec}


def _restrict(spec: Tree) -> None:
    """Drop privileges that a database does not need."""
    context = spec.setdefault("securityContext", {})
    context["seccompProfile"] = {"type": "RuntimeDefault"}
    if context.get("runAsUser"):
        # Else the image names the user, perhaps by a name, of which kubelet can't tell whether it is root.
        context["runAsNonRoot"] = True
    for container in (*spec.get("initContainers", ()), *spec["containers"]):
        container["securityContext"] = {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        }


def _is_restricted(stateful_set: Object) -> bool:
    return "seccompProfile" in stateful_set.at("spec", "template", "spec", "securityContext", default={})


def template_hash(content: Any) -> str:
    return hashlib.sha256(msgspec.json.encode(content, order="sorted")).hexdigest()[:16]


def annotation_of(stateful_set: Object, name: str) -> str:
    """An annotation in the template of a set."""
    found = stateful_set.at("spec", "template", "metadata", "annotations", default={}).get(name)
    return str(found or "")


def image_of(cluster: Object, version: str) -> str:
    """The image of a version: the tag in the spec applies to the version of the spec."""
    given = cluster.spec.get("image")
    if given and version == cluster.spec["version"]:
        return f"{given['repository']}:{given['tag']}"
    return f"{given['repository'] if given else REPOSITORY}:{version}"


def _pod_spec(cluster: Object, pool: Pool, version: str) -> Tree:
    asked = pool.spec
    security = cluster.spec.get("securityContext") or {}
    user = security.get("runAsUser")
    spec: Tree = {
        "serviceAccountName": base_name(cluster),
        "terminationGracePeriodSeconds": _STOPPING,
        "containers": [_container(cluster, pool, version)],
    }
    if user is not None:
        spec["securityContext"] = {"runAsUser": user, "fsGroup": user}
    for field in ("nodeSelector", "schedulerName", "affinity", "tolerations"):
        if asked.get(field):
            spec[field] = asked[field]
    if spread := asked.get("topologySpreadConstraints"):
        # The pods to spread are the pool's own; a constraint without a selector would select none.
        own = {"matchLabels": selecting_labels(cluster, pool)}
        spec["topologySpreadConstraints"] = [{**each, "labelSelector": own} for each in spread]
    volumes: list[Tree] = []
    if not asked.get("persistence"):
        volumes.append({"name": DATA, "emptyDir": {}})
    if pilot := cluster.spec.get("pilotImage"):
        volumes.append({"name": _SHARED, "emptyDir": {}})
        spec["initContainers"] = [_installing(pilot)]
    if volumes:
        spec["volumes"] = volumes
    return spec


def _container(cluster: Object, pool: Pool, version: str) -> Tree:
    given, pilot = cluster.spec.get("image"), cluster.spec.get("pilotImage")
    program = f"{_SHARED_PATH}/pilothouse" if pilot else "pilothouse"
    mounts: list[Tree] = [{"name": DATA, "mountPath": _DATA_PATH}]
    if pilot:
        mounts.append({"name": _SHARED, "mountPath": _SHARED_PATH, "readOnly": True})
    container: Tree = {
        "name": DATABASE,
        "image": image_of(cluster, version),
        "imagePullPolicy": (given or {}).get("pullPolicy") or "IfNotPresent",
        "command": [program, "pilot", "elasticsearch", "--data", _DATA_PATH],
        "env": [_from_field(name, path) for name, path in _IDENTITY.items()],
        "ports": [{"name": "http", "containerPort": 9200}, {"name": "transport", "containerPort": 9300}],
        "readinessProbe": {
            "httpGet": {"path": "/", "port": READY_PORT},
            "periodSeconds": 5,
            "timeoutSeconds": 3,
        },
        "livenessProbe": {
            "httpGet": {"path": "/", "port": LIVE_PORT},
            "initialDelaySeconds": 60,
            "periodSeconds": 10,
            "timeoutSeconds": 5,
            "failureThreshold": 6,
        },
        "volumeMounts": mounts,
    }
    if pool.spec.get("resources"):
        container["resources"] = pool.spec["resources"]
    return container


def _mount_secrets(spec: Tree, security: ClusterSecurity) -> None:
    """For the pilot, which copies them: Elasticsearch reads nothing outside its own folders."""
    container = spec["containers"][0]
    for name, secret in (("certificates", security.certificates), ("users", security.users)):
        path = f"{_SECRETS}/{name}"
        spec.setdefault("volumes", []).append({"name": name, "secret": {"secretName": secret}})
        container["volumeMounts"].append({"name": name, "mountPath": path, "readOnly": True})
        container["env"].append({"name": f"ES_{name.upper()}", "value": path})


def _installing(pilot: Tree) -> Tree:
    """Copies the pilot into the pod where it is not installed on the machine."""
    return {
        "name": "install-pilot",
        "image": f"{pilot['repository']}:{pilot['tag']}",
        "imagePullPolicy": pilot.get("pullPolicy") or "IfNotPresent",
        "command": ["pilothouse", "pilot", "install", _SHARED_PATH],
        "resources": {name: dict(amounts) for name, amounts in _INSTALLING.items()},
        "volumeMounts": [{"name": _SHARED, "mountPath": _SHARED_PATH}],
    }


def _claim(persistence: Tree) -> Tree:
    spec: Tree = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": persistence["size"]}},
    }
    if persistence.get("storageClass") is not None:
        spec["storageClassName"] = persistence["storageClass"]
    return {"metadata": {"name": DATA}, "spec": spec}


def _from_field(name: str, path: str) -> Tree:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}
