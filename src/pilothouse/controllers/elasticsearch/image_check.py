"""Images that the machines of a cluster lack: looked for before a healthy node is taken down, and what brings them.

    step = missing_images(scene)                   # refused, if a roll would need an image that is not there
    wait = why_no_image(scene, node, template)     # why this node's next pod could not start where it is

Nodes of ours fetch nothing and list the images that they have; others are left to fetch what they need (``api.node_images``).
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
from pilothouse.controllers.elasticsearch.cluster_nodes import ClusterNode
from pilothouse.controllers.elasticsearch.observed_cluster import ObservedCluster, ReconcileStep
from pilothouse.controllers.elasticsearch.pool_stateful_set import annotation_of
from pilothouse.controllers.elasticsearch.template_rollout import digest
from pilothouse.controllers.elasticsearch.version_policy import target
from pilothouse.runtime.intents import Wait
from pilothouse.runtime.snapshot import Snapshot

IMAGE_MISSING: Final = "ImageMissing"
_STRIP: Final = ("--strip-components", "1")
"""An archive of Elasticsearch has everything in one folder."""


def missing_images(scene: ObservedCluster) -> ReconcileStep | None:
    """The images that pods would be made from and that their machines lack: no roll is begun before they are there."""
    found: dict[str, dict[str, Object]] = {}
    for pool in scene.in_rolling_order:
        wanted = target(scene, pool)
        if wanted is None:
            continue
        for node in scene.of(pool.name):
            if node.pod is None or node.leaving or node.template == digest(wanted):
                continue
            if (machine := _lacking(scene.world, node.pod, _image(wanted))) is not None:
                found.setdefault(_image(wanted), {})[machine.name] = machine
    if not found:
        return None
    told = "; ".join(_told(image, list(machines.values())) for image, machines in found.items())
    return ReconcileStep(IMAGE_MISSING, f"{told}; no node is restarted before it is there", refused=True)


def why_no_image(scene: ObservedCluster, node: ClusterNode, template: str) -> Wait | None:
    """Why a node's pod should not be made anew from this template: the machine that it is on lacks the image."""
    stateful_set, wanted = scene.sets[node.pool.name], target(scene, node.pool)
    if annotation_of(stateful_set, TEMPLATE) == template:
        wanted = stateful_set.at("spec", "template")
    if wanted is None or node.pod is None or node.is_down:
        return None
    machine = _lacking(scene.world, node.pod, _image(wanted))
    return Wait(IMAGE_MISSING, because=_told(_image(wanted), [machine])) if machine is not None else None


def bringing(pod: Object, world: Snapshot) -> str:
    """What brings the image of a pod's database to the machine that the pod is on."""
    return _advice(_image(pod.tree), [_machine(pod, world)])


def wrong_image(node: ClusterNode, world: Snapshot) -> str:
    """What is wrong with a node whose image holds another version than it was imported as, and what would help."""
    assert node.pod is not None
    return (
        f"{node.name} was made for {node.made_for} and runs {node.version}: the image {_image(node.pod.tree)} holds that version. "
        f"Bring the right one, then delete the pod (kubectl delete pod {node.name} -n {node.pod.namespace}): {bringing(node.pod, world)}"
    )


def archive_source(pod: Object, world: Snapshot) -> str:
    """Where an archive with the database of a pod comes from."""
    return _source(_image(pod.tree), [_machine(pod, world)])


def _machine(pod: Object, world: Snapshot) -> Object:
    """The node that a pod is on, as far as it is known."""
    name = str(pod.spec.get("nodeName") or "")
    found = world.find(kind_names.Node, "", name) if name else None
    return found or Object.of({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})


def _lacking(world: Snapshot, pod: Object, image: str) -> Object | None:
    """The machine of a pod, if it certainly lacks an image."""
    name = pod.spec.get("nodeName")
    machine = world.find(kind_names.Node, "", str(name)) if name else None
    return machine if machine is not None and lacks(machine, image) else None


def _image(holder: Tree) -> str:
    return str(holder["spec"]["containers"][0]["image"])


def _told(image: str, machines: Sequence[Object]) -> str:
    names = [machine.name for machine in machines]
    where = f"node {names[0]}" if len(names) == 1 else f"nodes {', '.join(names)}"
    return f"image {image} is not on {where}, and nodes fetch nothing; {_advice(image, machines)}"


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
    """Where FILE comes from."""
    version = short_name(image).rpartition(":")[2]
    folders = {machine.annotations.get(DATA_FOLDER, USUAL_DATA_FOLDER) for machine in machines}
    if short_name(image) != f"elasticsearch:{version}" or not re.fullmatch(r"[0-9.]+", version):
        return "FILE is an archive of Elasticsearch"
    folder = folders.pop() if len(folders) == 1 else "DIR"
    command = f"PILOTHOUSE_DATA={shlex.quote(folder)} examples/fetch-elasticsearch {version}"
    return f"FILE is an archive of Elasticsearch {version}; in a checkout of Pilothouse, {command} fetches and imports one"
