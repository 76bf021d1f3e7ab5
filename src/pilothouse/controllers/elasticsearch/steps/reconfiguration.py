"""What nodes take from their Pilots: settings, plugins, heap, roles.

    yield from tell_pilots(scene)        # all that nothing is restarted for that runs
    step = reconfigure(scene)            # the next node that is restarted for its configuration; None if all have theirs

A configuration is written to one Pilot at a time, by the rule by which pods are made anew: the pilot restarts its database for it. Nodes that
are down get theirs at once: that takes nothing away. So do those whose Pilots somebody else has edited: their pilots go by the hash that is written beside the spec
(``configurations``), and have not followed. One that was started meanwhile has, and waits for its turn.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pilothouse.api.navigator.configurations import configuration_hash, in_force
from pilothouse.api.navigator.labels import CONFIGURATION
from pilothouse.api.objects import Object, Tree
from pilothouse.controllers.elasticsearch.desired.pilot_specs import difference, initial_masters, wanted_spec
from pilothouse.controllers.elasticsearch.observed.cluster_nodes import ClusterNode
from pilothouse.controllers.elasticsearch.observed.observed_cluster import ObservedCluster, ReconcileStep
from pilothouse.runtime.intents import Intent, PatchObject

CONFIGURATIONS: Final = "RollingConfiguration"


def tell_pilots(scene: ObservedCluster) -> Iterator[Intent]:
    """What Pilots can be told at once: what nobody has to be restarted for, and everything if the node is down."""
    for node in scene.nodes:
        if node.pilot is None or node.pool.removed:
            continue
        wanted = _wanted(scene, node)
        if _needs_restart(node.pilot, wanted) and not node.is_down:
            continue
        if fields := _fields(node.pilot, wanted):
            because = f"{node.name} has a new configuration, for which nothing is restarted that runs"
            yield PatchObject(node.pilot, fields, because=because)


def reconfigure(scene: ObservedCluster) -> ReconcileStep | None:
    """The next Pilot whose configuration is not what is asked for and whose node has to be restarted for it."""
    nodes = [node for pool in scene.in_rolling_order for node in reversed(scene.of(pool.name))]
    # One that has been told, and whose Pilot was edited before its pilot could follow, goes first: the others wait for it.
    for node in sorted(nodes, key=lambda node: node.runs_its_configuration):
        if node.pilot is None or node.leaving or node.is_down:
            continue
        wanted = _wanted(scene, node)
        if not _needs_restart(node.pilot, wanted):
            continue
        if wait := scene.why_not(node):
            message = f"{node.name} is next to get its configuration: {wait.because}"
            return ReconcileStep(CONFIGURATIONS, message, wait=wait)
        because = f"{node.name} gets its configuration and is restarted with it"
        patch = PatchObject(
            node.pilot, _fields(node.pilot, wanted), because=because, event="UpdateConfiguration"
        )
        return ReconcileStep(CONFIGURATIONS, because, (patch,))
    return None


def _needs_restart(pilot: Object, wanted: Tree) -> bool:
    """Whether its database would be restarted for it: it is not what it has been told to run, or it was started with what a person has made of that."""
    digest = configuration_hash(wanted)
    if in_force(pilot.spec, pilot.annotations) != digest:
        return True
    return digest not in (configuration_hash(pilot.spec), pilot.at("status", "configuration", "hash"))


def _fields(pilot: Object, wanted: Tree) -> Tree:
    """The merge patch that gives a Pilot what is wanted, and vouches for it; empty if that is so already."""
    fields: Tree = {}
    if spec := difference(pilot.spec, wanted):
        fields["spec"] = spec
    if pilot.annotations.get(CONFIGURATION) != (digest := configuration_hash(wanted)):
        fields["metadata"] = {"annotations": {CONFIGURATION: digest}}
    return fields


def _wanted(scene: ObservedCluster, node: ClusterNode) -> Tree:
    return wanted_spec(
        scene.cluster,
        node.pool,
        version=node.made_for or str(scene.cluster.spec["version"]),
        initial=[] if scene.is_formed else initial_masters(scene.cluster, scene.pools.values(), scene.pilots),
        majority=scene.majority,
    )
