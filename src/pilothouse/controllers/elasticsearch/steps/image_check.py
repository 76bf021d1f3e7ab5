"""Images that the machines of a cluster lack: checked before a healthy node is taken down, with the command
that imports them.

    step = missing_images(observed)                        # refused, if a roll needs an image that is missing
    wait = why_image_missing(observed, node, template)     # why its next pod could not start

Our nodes pull no images and list those that they have; other nodes are left to pull what they need
(``api.node_images``).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence
from typing import Final

from pilothouse.api import kind_names
from pilothouse.api.navigator.labels import TEMPLATE
from pilothouse.api.node_images import DATA_FOLDER, USUAL_DATA_FOLDER, importing, lacks, short_name
from pilothouse.api.objects import Object, Tree
from pilothouse.controllers.elasticsearch.desired.pool_stateful_set import annotation_of
from pilothouse.controllers.elasticsearch.observed.cluster_nodes import ClusterNode
from pilothouse.controllers.elasticsearch.observed.observed_cluster import ObservedCluster
from pilothouse.controllers.elasticsearch.steps.reconcile_step import ReconcileStep
from pilothouse.controllers.elasticsearch.steps.template_rollout import template_digest
from pilothouse.controllers.elasticsearch.steps.version_policy import target_template
from pilothouse.runtime.intents import Wait
from pilothouse.runtime.snapshot import Snapshot

IMAGE_MISSING: Final = "ImageMissing"
_STRIP: Final = ("--strip-components", "1")
"""An archive of Elasticsearch has everything in one folder."""


def missing_images(observed: ObservedCluster) -> ReconcileStep | None:
    """The images that a roll needs and machines lack: it does not start before they are there."""
    found: dict[str, dict[str, Object]] = {}
    for pool in observed.rolling_order:
        wanted = target_template(observed, pool)
        if wanted is None:
            continue
        for node in observed.nodes_of(pool.name):
            if node.pod is None or node.leaving or node.template == template_digest(wanted):
                continue
            if (machine := _lacking(observed.world, node.pod, _image(wanted))) is not None:
                found.setdefault(_image(wanted), {})[machine.name] = machine
    if not found:
        return None
    missing = "; ".join(_missing_text(image, list(machines.values())) for image, machines in found.items())
    return ReconcileStep(IMAGE_MISSING, f"{missing}; no node is restarted before it is there", refused=True)


def why_image_missing(observed: ObservedCluster, node: ClusterNode, template: str) -> Wait | None:
    """Why a node's pod should not be replaced by one of this template: its machine lacks the image."""
    stateful_set, wanted = observed.sets[node.pool.name], target_template(observed, node.pool)
    if annotation_of(stateful_set, TEMPLATE) == template:
        wanted = stateful_set.at("spec", "template")
    if wanted is None or node.pod is None or node.is_down:
        return None
    machine = _lacking(observed.world, node.pod, _image(wanted))
    return (
        Wait(IMAGE_MISSING, because=_missing_text(_image(wanted), [machine])) if machine is not None else None
    )


def import_advice(pod: Object, world: Snapshot) -> str:
    """How to import the image of a pod's database on the machine of the pod."""
    return _advice(_image(pod.tree), [_node_of(pod, world)])


def wrong_image(node: ClusterNode, world: Snapshot) -> str:
    """Why a node's image is wrong, which holds another version than its tag says, and what would help."""
    assert node.pod is not None
    return (
        f"{node.name} was created for {node.made_for} but runs {node.version}: "
        f"that is the version in the image {_image(node.pod.tree)}. Import the right one, then delete the "
        f"pod (kubectl delete pod {node.name} -n {node.pod.namespace}): {import_advice(node.pod, world)}"
    )


def archive_source(pod: Object, world: Snapshot) -> str:
    """Where to get an archive with the database of a pod."""
    return _source(_image(pod.tree), [_node_of(pod, world)])


def _node_of(pod: Object, world: Snapshot) -> Object:
    """The Node of a pod; one with only a name if it is unknown."""
    name = str(pod.spec.get("nodeName") or "")
    found = world.find(kind_names.Node, "", name) if name else None
    return found or Object.of({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})


def _lacking(world: Snapshot, pod: Object, image: str) -> Object | None:
    """The Node of a pod, if it certainly lacks an image."""
    name = pod.spec.get("nodeName")
    machine = world.find(kind_names.Node, "", str(name)) if name else None
    return machine if machine is not None and lacks(machine, image) else None


def _image(holder: Tree) -> str:
    return str(holder["spec"]["containers"][0]["image"])


def _missing_text(image: str, machines: Sequence[Object]) -> str:
    names = [machine.name for machine in machines]
    where = f"node {names[0]}" if len(names) == 1 else f"nodes {', '.join(names)}"
    return f"image {image} is not on {where}, and nodes do not pull images; {_advice(image, machines)}"


def _advice(image: str, machines: Iterable[Object]) -> str:
    by_command: dict[str, list[Object]] = {}
    for machine in machines:
        by_command.setdefault(importing(image, machine, *_STRIP), []).append(machine)
    commands = [
        f"on {', '.join(filter(None, (each.name for each in those))) or 'its node'}: {command}"
        for command, those in by_command.items()
    ]
    return f"{'; '.join(commands)}; {_source(image, [one for those in by_command.values() for one in those])}"


def _source(image: str, machines: Sequence[Object]) -> str:
    """Where to get FILE."""
    version = short_name(image).rpartition(":")[2]
    folders = {machine.annotations.get(DATA_FOLDER, USUAL_DATA_FOLDER) for machine in machines}
    if short_name(image) != f"elasticsearch:{version}" or not re.fullmatch(r"[0-9.]+", version):
        return "FILE is an archive of Elasticsearch"
    folder = folders.pop() if len(folders) == 1 else "DIR"
    command = f"PILOTHOUSE_DATA={shlex.quote(folder)} examples/fetch-elasticsearch {version}"
    return (
        f"FILE is an archive of Elasticsearch {version}; "
        f"in a checkout of Pilothouse, {command} fetches and imports one"
    )
