"""Changes that restart nodes, one node at a time.

    step = roll(scene)                   # what is done next for the versions, templates and configurations; None if all is as asked
    refused = refuse(scene)              # why nodes do not get the version that is asked for; None if they may

* What needs another pod (version, image, resources, placement) rolls through the pool's set by its partition: pools without masters
  first, in each the highest ordinal first, the next when the one before is back, runs what it should, and the shards are where they belong.
* What the database takes from its Pilot (settings, plugins, heap) is written to one Pilot at a time, by the same rule.
* Nodes that are down get both at once: that takes nothing away. But none gets what another was made from and has not been able to start with:
  an image that is nowhere would take all nodes that are slow, one after the other.

A template that breaks a node is replaced while the roll stands. The set is then told to wait for deletions (``OnDelete``), since a partition
would have it take the good nodes above the broken one first; the pods are deleted from here, the broken one first.

The version of a set's template never goes down once a node may have run with it, whatever the spec says: Elasticsearch does not read a folder that a
later version has written. A pod that can't have run has written nothing, and goes back as any broken one does: it is deleted from here, only if it is
still as it was seen, so that one which starts after all is found out and keeps its version.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Final

from pilothouse.api.navigator.configurations import configuration_hash
from pilothouse.api.navigator.labels import TEMPLATE, VERSION
from pilothouse.api.objects import Object, Tree
from pilothouse.controllers.elasticsearch.asking import Pool
from pilothouse.controllers.elasticsearch.configuring import difference, initial_masters, wanted_spec
from pilothouse.controllers.elasticsearch.nodes import Node
from pilothouse.controllers.elasticsearch.scene import Scene, Step
from pilothouse.controllers.elasticsearch.sets import annotation_of, retention, wanted_template
from pilothouse.controllers.elasticsearch.upgrades import refusal, unknown
from pilothouse.meta.versions import Version
from pilothouse.runtime.intents import Delete, Intent, Patch, Update, Wait

VERSIONS: Final = "RollingVersion"
TEMPLATES: Final = "RollingPods"
CONFIGURATIONS: Final = "RollingConfiguration"
REFUSED: Final = "VersionRefused"
BROKEN_FOR: Final = 60.0
"""Seconds for which a node has not got up before its pod is replaced out of turn."""


def roll(scene: Scene) -> Step | None:
    """The next step of what has to be rolled."""
    steps = (_roll_pool(scene, pool) for pool in scene.in_rolling_order)
    return next(filter(None, steps), None) or _reconfigure(scene)


def refuse(scene: Scene) -> Step | None:
    """What is asked for and can't be: all nodes that can't go back, or the way that Elasticsearch does not go."""
    asked = str(scene.cluster.spec["version"])
    beyond = {pool.name: found for pool in scene.in_rolling_order if (found := _beyond(scene, pool))}
    if beyond:
        nodes = [node for found in beyond.values() for node in found]
        names, reached = ", ".join(node.name for node in nodes), sorted(set(map(_furthest, nodes)))
        because = (
            f"{names} {'are' if len(nodes) > 1 else 'is'} at {' and '.join(map(str, reached))} and can't go back to {asked}: "
            "Elasticsearch does not read a folder that a later version has written; the others are left as they are"
        )
        kept = (_kept_at(scene, scene.pools[name], found) for name, found in beyond.items())
        return Step(REFUSED, because, tuple(chain.from_iterable(kept)), refused=True)
    problems = (_no_way(scene, pool) for pool in scene.in_rolling_order)
    problem = unknown(asked) or next(filter(None, problems), "")
    return Step(REFUSED, problem, refused=True) if problem else None


def reach(scene: Scene) -> Iterator[Intent]:
    """Write down the version that all nodes of a pool have."""
    for pool in scene.in_rolling_order:
        stateful_set = scene.sets[pool.name]
        made_for = annotation_of(stateful_set, VERSION)
        if stateful_set.annotations.get(VERSION) == made_for:
            continue
        if all(node.version == made_for == node.made_for for node in scene.of(pool.name)):
            because = f"all nodes of pool {pool.name} have version {made_for}"
            fields = {"metadata": {"annotations": {VERSION: made_for}}}
            yield Patch(stateful_set, fields, because=because, event="UpdateVersion")


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


def _roll_pool(scene: Scene, pool: Pool) -> Step | None:
    stateful_set, wanted = scene.sets[pool.name], _target(scene, pool)
    if wanted is None:
        return None
    digest = _digest(wanted)
    present = annotation_of(stateful_set, TEMPLATE)
    nodes = scene.of(pool.name)
    behind = [node for node in nodes if node.pod is not None and node.template != present]
    by_hand = stateful_set.at("spec", "updateStrategy", "type") == "OnDelete"
    broken = [node for node in nodes if node.template != digest and _is_broken(scene, node)]
    early = [node for node in nodes if _is_taken_back(scene, node)]
    if early and not broken and not by_hand:
        # The set would not look whether it has started meanwhile.
        because = f"{early[-1].name} was made for {early[-1].made_for}, and is not seen to be down yet"
        return Step(_reason(stateful_set, wanted), because, wait=Wait("NodeNotReady", because=because))
    if digest != present:
        if broken:
            return _mend(scene, stateful_set, pool, wanted, broken[-1])
        if by_hand:
            because = f"pool {pool.name} gets what is asked for by now"
            return Step(TEMPLATES, because, (_held(stateful_set, wanted, because),))
        if not behind:
            return _begin(scene, stateful_set, pool, wanted, nodes)
        if all(node.template in ("", digest) for node in nodes):
            because = f"pool {pool.name} goes on with what its pods are made from"
            held = 1 + max(node.ordinal for node in nodes)
            return Step(TEMPLATES, because, (_templated(stateful_set, wanted, held, because, event=""),))
    elif broken and not by_hand:
        return _mend(scene, stateful_set, pool, wanted, broken[-1])
    if by_hand:
        return _by_hand(scene, stateful_set, pool, behind)
    return _advance(scene, stateful_set, pool, behind[-1]) if behind else None


def _target(scene: Scene, pool: Pool) -> Tree | None:
    """What the pods of a pool should be made from; None if it stays as it is, since the version is refused."""
    if _beyond(scene, pool) or _no_way(scene, pool):
        return None
    return wanted_template(scene.cluster, pool, str(scene.cluster.spec["version"]), scene.security)


def _beyond(scene: Scene, pool: Pool) -> list[Node]:
    """The nodes of a pool whose folders a later version than the one that is asked for may have touched."""
    asked = Version.parse(str(scene.cluster.spec["version"]))
    return [node for node in scene.of(pool.name) if asked < _furthest(node)]


def _no_way(scene: Scene, pool: Pool) -> str:
    """Why a pool can't be rolled on to the version that is asked for; empty if it can."""
    asked, present = str(scene.cluster.spec["version"]), annotation_of(scene.sets[pool.name], VERSION)
    if not present or Version.parse(asked) <= Version.parse(present):
        return ""
    running = [node.version for node in scene.nodes if node.version] or [present]
    return unknown(asked) or refusal(min(running, key=Version.parse), asked)


def _furthest(node: Node) -> Version:
    """The latest version that may have touched a node's folder."""
    started_for = "" if node.cannot_have_run else node.made_for
    return max(Version.parse(text or "0") for text in (started_for, node.due_for, node.version))


def _is_broken(scene: Scene, node: Node) -> bool:
    """Whether a node does not get up with what its pod was made from, or waits for a version that nobody asks for any more."""
    if _is_taken_back(scene, node) and node.cannot_have_run and node.is_down:
        return node.pod is not None and not node.pod.deleting
    return node.broken_for(scene.now) >= BROKEN_FOR


def _is_taken_back(scene: Scene, node: Node) -> bool:
    return Version.parse(node.made_for or "0") > Version.parse(str(scene.cluster.spec["version"]))


def _why_not(scene: Scene, node: Node, template: str) -> Wait | None:
    """Why a node can't be made anew now, from this template."""
    return scene.why_not(node) or _untried(scene, node, template)


def _untried(scene: Scene, taken: Node, template: str) -> Wait | None:
    """Nobody is taken while another that has the same, or is about to, has not been able to start with it."""
    for pool in scene.in_rolling_order:
        wanted = _target(scene, pool)
        same = template if pool.name == taken.pool.name else _digest(wanted) if wanted is not None else ""
        for node in scene.of(pool.name):
            if node.name == taken.name or node.leaving:
                continue
            # One that has run with it may go and come back as it was, as from a machine that is lost.
            if node.pod is None or (not node.has_run if node.template == same else node.pod.deleting):
                problem = node.unsettled(scene.sets[pool.name])
                because = f"{problem}; no other gets what {node.name} has not started with"
                return Wait("NodeNotStarted", because=because)
    return None


def _kept_at(scene: Scene, pool: Pool, moved: list[Node]) -> Iterator[Intent]:
    """Where the template was taken back while a pod was being made from it: that pod must not come back as an older one."""
    stateful_set, version = scene.sets[pool.name], str(max(map(_furthest, moved)))
    present = annotation_of(stateful_set, VERSION)
    if present and Version.parse(present) < Version.parse(version):
        because = f"{moved[0].name} was made for {version} already"
        wanted = wanted_template(scene.cluster, pool, version, scene.security)
        yield _templated(stateful_set, wanted, moved[0].ordinal, because, event="")


def _begin(scene: Scene, stateful_set: Object, pool: Pool, wanted: Tree, nodes: tuple[Node, ...]) -> Step:
    """A new template goes out together with the leave to make the highest pod anew."""
    staying = [node for node in nodes if not node.leaving]
    reason = _reason(stateful_set, wanted)
    version = wanted["metadata"]["annotations"][VERSION]
    if not staying:
        because = f"pool {pool.name} gets the template of version {version}"
        return Step(reason, because, (_templated(stateful_set, wanted, 0, because, event=""),))
    first = staying[-1]
    if wait := _why_not(scene, first, _digest(wanted)):
        return Step(reason, f"pool {pool.name} is to be rolled: {wait.because}", wait=wait)
    because = f"pool {pool.name} is rolled to version {version}, {first.name} first"
    return Step(
        reason,
        because,
        (_templated(stateful_set, wanted, first.ordinal, because, event="UpdateVersion"),),
    )


def _advance(scene: Scene, stateful_set: Object, pool: Pool, node: Node) -> Step:
    """The next pod of a roll that is under way."""
    version = annotation_of(stateful_set, VERSION)
    reason = VERSIONS if node.made_for != version else TEMPLATES
    if node.is_due(stateful_set):
        return Step(reason, f"pod {node.name} is about to be made anew, for version {version}")
    if wait := _why_not(scene, node, annotation_of(stateful_set, TEMPLATE)):
        return Step(reason, f"{node.name} is next in pool {pool.name}: {wait.because}", wait=wait)
    because = f"{node.name} is next: made anew for version {version}"
    tree = stateful_set.thawed()
    tree["spec"]["updateStrategy"] = _partition(node.ordinal)
    return Step(reason, because, (Update(stateful_set, tree, because=because, event="UpdateVersion"),))


def _mend(scene: Scene, stateful_set: Object, pool: Pool, wanted: Tree, broken: Node) -> Step:
    """A node that does not get up with what it has gets what is wanted, out of turn."""
    if wait := _untried(scene, broken, _digest(wanted)):
        message = f"{broken.name} does not get ready with what it was made from: {wait.because}"
        return Step(_reason(stateful_set, wanted), message, wait=wait)
    because = f"{broken.name} does not get ready with what it was made from; pool {pool.name} gets what is asked for by now"
    return Step(_reason(stateful_set, wanted), because, (_held(stateful_set, wanted, because),))


def _by_hand(scene: Scene, stateful_set: Object, pool: Pool, behind: list[Node]) -> Step | None:
    """Pods of a set that waits for deletions are deleted from here: those that are down, then one by one."""
    if not behind:
        because = f"pool {pool.name} is mended"
        tree = stateful_set.thawed()
        tree["spec"]["updateStrategy"] = _partition(0)
        return Step(TEMPLATES, because, (Update(stateful_set, tree, because=because),))
    down = [node for node in behind if _is_broken(scene, node)]
    node = (down or behind)[-1]
    if node.pod is None or node.pod.deleting:
        return Step(TEMPLATES, f"pod {node.name} is about to be made anew")
    if wait := _why_not(scene, node, annotation_of(stateful_set, TEMPLATE)):
        return Step(TEMPLATES, f"{node.name} is next in pool {pool.name}: {wait.because}", wait=wait)
    because = f"{node.name} is next: deleted, to be made anew"
    return Step(TEMPLATES, because, (Delete(node.pod, exact=True, because=because, event="UpdateVersion"),))


def _reconfigure(scene: Scene) -> Step | None:
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


def _templated(stateful_set: Object, wanted: Tree, partition: int, because: str, *, event: str) -> Update:
    tree = stateful_set.thawed()
    tree["spec"]["template"] = wanted
    tree["spec"]["updateStrategy"] = _partition(partition)
    return Update(stateful_set, tree, because=because, event=event)


def _held(stateful_set: Object, wanted: Tree, because: str) -> Update:
    """The template goes out, and no pod is made anew by itself."""
    tree = stateful_set.thawed()
    tree["spec"]["template"] = wanted
    tree["spec"]["updateStrategy"] = {"type": "OnDelete"}
    return Update(stateful_set, tree, because=because)


def _digest(template: Tree) -> str:
    return str(template["metadata"]["annotations"][TEMPLATE])


def _partition(ordinal: int) -> Tree:
    return {"type": "RollingUpdate", "rollingUpdate": {"partition": ordinal}}


def _reason(stateful_set: Object, wanted: Tree) -> str:
    same = annotation_of(stateful_set, VERSION) == wanted["metadata"]["annotations"][VERSION]
    return TEMPLATES if same else VERSIONS


def kept_claims(scene: Scene) -> Iterator[Intent]:
    """What the cluster says of its claims is what its sets say."""
    wanted = retention(scene.cluster)
    for pool in scene.pools.values():
        stateful_set = scene.sets.get(pool.name)
        if stateful_set is None or stateful_set.spec.get("persistentVolumeClaimRetentionPolicy") == wanted:
            continue
        because = f"claims of pool {pool.name}: {wanted['whenScaled']} when scaled, {wanted['whenDeleted']} when deleted"
        fields = {"spec": {"persistentVolumeClaimRetentionPolicy": wanted}}
        yield Patch(stateful_set, fields, because=because)
