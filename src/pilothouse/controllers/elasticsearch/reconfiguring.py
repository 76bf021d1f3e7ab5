"""What nodes take from their Pilots: settings, plugins, heap, roles.

    yield from tell_pilots(scene)        # all that nothing is restarted for that runs
    step = reconfigure(scene)            # the next node that is restarted for its configuration; None if all have theirs

A configuration is written to one Pilot at a time, by the rule by which pods are made anew: the pilot restarts its database for it. Nodes that
are down get theirs at once: that takes nothing away.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pilothouse.api.navigator.configurations import configuration_hash
from pilothouse.api.objects import Tree
from pilothouse.controllers.elasticsearch.configuring import difference, initial_masters, wanted_spec
from pilothouse.controllers.elasticsearch.nodes import Node
from pilothouse.controllers.elasticsearch.scene import Scene, Step
from pilothouse.runtime.intents import Intent, Patch

CONFIGURATIONS: Final = "RollingConfiguration"


def tell_pilots(scene: Scene) -> Iterator[Intent]:
    """What Pilots can be told at once: what nobody has to be restarted for, and everything if the node is down."""
    for node in scene.nodes:
        if node.pilot is None or node.pool.removed:
            continue
        wanted = _wanted(scene, node)
        needs_restart = configuration_hash(wanted) != configuration_hash(node.pilot.spec)
        if needs_restart and not node.is_down:
            continue
        if fields := difference(node.pilot.spec, wanted):
            because = f"{node.name} has a new configuration, for which nothing is restarted that runs"
            yield Patch(node.pilot, {"spec": fields}, because=because)


def reconfigure(scene: Scene) -> Step | None:
    """The next Pilot whose configuration is not what is asked for and whose node has to be restarted for it."""
    for pool in scene.in_rolling_order:
        for node in reversed(scene.of(pool.name)):
            if node.pilot is None or node.leaving or node.is_down:
                continue
            wanted = _wanted(scene, node)
            if configuration_hash(wanted) == configuration_hash(node.pilot.spec):
                continue
            if wait := scene.why_not(node):
                message = f"{node.name} is next to get its configuration: {wait.because}"
                return Step(CONFIGURATIONS, message, wait=wait)
            because = f"{node.name} gets its configuration and is restarted with it"
            patch = Patch(
                node.pilot,
                {"spec": difference(node.pilot.spec, wanted)},
                because=because,
                event="UpdateConfiguration",
            )
            return Step(CONFIGURATIONS, because, (patch,))
    return None


def _wanted(scene: Scene, node: Node) -> Tree:
    return wanted_spec(
        scene.cluster,
        node.pool,
        version=node.made_for or str(scene.cluster.spec["version"]),
        initial=[] if scene.is_formed else initial_masters(scene.cluster, scene.pools.values(), scene.pilots),
        majority=scene.majority,
    )
