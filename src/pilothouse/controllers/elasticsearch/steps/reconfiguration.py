"""Configuration that nodes take from their Pilots: settings, plugins, heap, roles.

    yield from update_pilots(observed)      # every change that restarts no running node
    step = reconfigure(observed)            # the next node to restart; None if all are up to date

A configuration that needs a restart is written to one Pilot at a time, through the gate that pods are
replaced through: the pilot restarts its database for it. Nodes that are down get theirs at once: that makes
nothing unavailable. So do nodes whose Pilot was edited by others: their pilots go by the hash beside the spec
(``configurations``) and have not applied the edit. A node that was started since has applied it, and waits
for its turn.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pilothouse.api.navigator.configurations import configuration_hash, in_force
from pilothouse.api.navigator.labels import CONFIGURATION
from pilothouse.api.objects import Object, Tree
from pilothouse.controllers.elasticsearch.desired.pilot_specs import difference, initial_masters, wanted_spec
from pilothouse.controllers.elasticsearch.observed.cluster_nodes import ClusterNode
from pilothouse.controllers.elasticsearch.observed.observed_cluster import ObservedCluster
from pilothouse.controllers.elasticsearch.steps import restart_gate
from pilothouse.controllers.elasticsearch.steps.reconcile_step import ReconcileStep
from pilothouse.runtime.intents import Intent, PatchObject

CONFIGURATIONS: Final = "RollingConfiguration"


def update_pilots(observed: ObservedCluster) -> Iterator[Intent]:
    """Write what needs no restart, and everything for nodes that are down."""
    for node in observed.nodes:
        if node.pilot is None or node.pool.removed:
            continue
        wanted = _wanted(observed, node)
        if _needs_restart(node.pilot, wanted) and not node.is_down:
            continue
        if fields := _fields(node.pilot, wanted):
            because = f"the configuration of {node.name} changes, without a restart of a running database"
            yield PatchObject(node.pilot, fields, because=because)


def reconfigure(observed: ObservedCluster) -> ReconcileStep | None:
    """Write the next configuration that needs a restart."""
    nodes = [node for pool in observed.rolling_order for node in reversed(observed.nodes_of(pool.name))]
    # A node that does not run its configuration yet goes first: the gate holds back all others until it does.
    for node in sorted(nodes, key=lambda node: node.runs_its_configuration):
        if node.pilot is None or node.leaving or node.is_down:
            continue
        wanted = _wanted(observed, node)
        if not _needs_restart(node.pilot, wanted):
            continue
        if wait := restart_gate.why_not_restart(observed, node):
            return ReconcileStep.waiting(
                CONFIGURATIONS, wait, f"{node.name} is next to get its configuration"
            )
        because = f"{node.name} gets its configuration and restarts with it"
        patch = PatchObject(
            node.pilot, _fields(node.pilot, wanted), because=because, event="UpdateConfiguration"
        )
        return ReconcileStep(CONFIGURATIONS, because, (patch,), takes_down=(node.name,))
    return None


def _needs_restart(pilot: Object, wanted: Tree) -> bool:
    """Whether the pilot would restart its database for it, or runs with a person's edit."""
    digest = configuration_hash(wanted)
    if in_force(pilot.spec, pilot.annotations) != digest:
        return True
    return digest not in (configuration_hash(pilot.spec), pilot.at("status", "configuration", "hash"))


def _fields(pilot: Object, wanted: Tree) -> Tree:
    """The merge patch to the wanted spec and its hash; empty if nothing changes."""
    fields: Tree = {}
    if spec := difference(pilot.spec, wanted):
        fields["spec"] = spec
    if pilot.annotations.get(CONFIGURATION) != (digest := configuration_hash(wanted)):
        fields["metadata"] = {"annotations": {CONFIGURATION: digest}}
    return fields


def _wanted(observed: ObservedCluster, node: ClusterNode) -> Tree:
    return wanted_spec(
        observed.cluster,
        node.pool,
        version=node.made_for or str(observed.cluster.spec["version"]),
        initial=[]
        if observed.is_formed
        else initial_masters(observed.cluster, observed.pools.values(), observed.pilots),
        majority=observed.majority,
    )
