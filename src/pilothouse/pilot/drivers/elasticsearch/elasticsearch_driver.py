"""The driver of Elasticsearch: runs a node and, in the leading pilot, takes care of the cluster.

    driver = make(instance)
    await driver.observe(desired)          # ready, documents, shards, what is left, metrics
    await driver.lead(desired, pilots, leads)     # exclusions, allocation; the facts of the whole cluster

All requests go to the node beside us. It is ready when it sees a master and is seen by it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from pilothouse.api.applications.elasticsearch_application import (
    INITIAL_MASTERS,
    MINIMUM_MASTERS,
    SECURITY,
    has_disk_headroom,
)
from pilothouse.api.objects import Object, Tree
from pilothouse.pilot.driver import (
    DesiredState,
    Hook,
    HookFailed,
    HookNotReady,
    InstanceEnvironment,
    MetricValue,
    Observation,
    Phase,
    StartCommand,
)
from pilothouse.pilot.drivers.elasticsearch import (
    allocation_explain,
    cluster_actions,
    cluster_state,
    elasticsearch_metrics,
    image_copy,
    plugins,
    preflight,
    rebalance,
    redundancy,
    tls_and_users,
)
from pilothouse.pilot.drivers.elasticsearch.node_client import ElasticsearchClient, NodeRequestFailed
from pilothouse.pilot.drivers.elasticsearch.settings import Build, settings_of

log = logging.getLogger(__name__)

_NO_STATE: Final = 503
_NO_MASTER: Final = "The node sees no master: too few of them run, or they don't find each other"
_NOISE: Final = (
    "For complete error details, refer to the log",
    "Elasticsearch did not exit normally",
    "Elasticsearch died while starting up",
    "uncaught exception in thread",
)
"""Lines that it writes at its exit besides the reason."""


class Elasticsearch:
    application = "elasticsearch"

    def __init__(self, instance: InstanceEnvironment) -> None:
        self._instance = instance
        self._layout = preflight.DataLayout(instance.folder)
        self._secrets = tls_and_users.MountedSecrets.of(instance.environ)
        self._node = ElasticsearchClient(instance.address, secrets=self._secrets)
        self._plugins: list[Tree] = []
        self._found: tuple[Path, Build] | None = None
        self._copied: Path | None = None
        self._attendance = cluster_actions.MembershipTimer()
        self._drain = cluster_actions.DrainProgress()
        self._rebalance = cluster_actions.DrainProgress(rebalance.STILL)
        self._inquiry = allocation_explain.AllocationExplain()
        self._metrics: tuple[MetricValue, ...] = ()
        """Of the whole cluster, when this pilot last led."""

    def hooks(self, phase: Phase, desired: DesiredState) -> Sequence[Hook]:
        if phase == "PreStart":
            return (
                Hook("Preflight", lambda: self._check(desired)),
                Hook("AwaitLeader", lambda: self._await_leader(desired)),
                Hook("WriteConfiguration", lambda: self._write(desired)),
                Hook("TakeUpSecrets", lambda: self._take_up_secrets(desired)),
                Hook("InstallPlugins", lambda: self._install(desired)),
            )
        if phase == "PreStop" and not desired.decommission:
            return (
                Hook("HoldReplicasBack", self._hold_back),
                Hook("Flush", self._flush),
                *((Hook("GiveVoteAway", self._give_vote_away),) if self.is_candidate(desired) else ()),
            )
        return ()

    def start(self, desired: DesiredState) -> StartCommand:
        home, build = self._build()
        if self._wanted_plugins(desired) and self._copied is not None and self._copied.exists():
            # A decommissioned node starts without the copy if that could not be made.
            home = self._copied
        return StartCommand(
            argv=(str(home / "bin" / "elasticsearch"),),
            environ=self._environ(desired, build, home),
            folder=str(self._layout.root),
            clean_codes=(0, 143),
            noise=_NOISE,
        )

    async def observe(self, desired: DesiredState) -> Observation:
        _, build = self._build()
        try:
            state = await self._local_state()
            left, held = await self._left(desired, build) if desired.decommission else (None, None)
            # After ``_left``: figures of a leaving node must not be from before it was seen to be empty.
            stats = await self._node.get(cluster_state.STATS, filter_path=cluster_state.STATS_FILTER)
        except NodeRequestFailed as problem:
            if problem.code == _NO_STATE:
                # It is up, and has never been in a cluster; from version 8 on it reports no more than that.
                restart = self._must_form(desired, cluster_state.ClusterState(), build)
                return Observation(
                    ready=False,
                    message=_NO_MASTER,
                    version=build.version,
                    disk_headroom=has_disk_headroom(build.version),
                    restart=restart,
                )
            return Observation(
                ready=False,
                message=f"Elasticsearch does not answer: {problem}",
                answers=problem.listens,
                version=build.version,
                disk_headroom=has_disk_headroom(build.version),
            )
        id = state.id_of(self._instance.name)
        joined = state.has_master and bool(id)
        shards = state.shards.get(id, 0) if joined else None
        documents = cluster_state.documents(stats)
        if joined and held is not None:
            # The master's count is later.
            shards = held
        surplus = ""
        if left == "" and documents:
            if shards:
                surplus = cluster_state.surplus(shards, documents)
            else:
                left = f"{documents} documents of shards that have moved away are still being removed"
        status: Tree = {
            "version": build.version,
            "plugins": self._plugins,
            "security": tls_and_users.state(build.secured, desired.settings.get(SECURITY)),
        }
        if joined:
            status |= {"shards": shards, "documents": documents}
        return Observation(
            ready=joined,
            message="" if joined else _NO_MASTER,
            version=build.version,
            status=status,
            left=left,
            surplus=surplus,
            disk_headroom=has_disk_headroom(build.version),
            metrics=(
                *elasticsearch_metrics.node_metrics(stats, shards, **self._who(desired)),
                *(self._metrics if desired.leads else ()),
            ),
            restart=self._must_form(desired, state, build),
        )

    def is_candidate(self, desired: DesiredState) -> bool:
        """Masters are: only they can form a cluster."""
        return "master" in ((desired.spec.get("elasticsearch") or {}).get("roles") or ())

    async def lead(self, desired: DesiredState, peers: Sequence[Object], leads: Callable[[], bool]) -> Tree:
        _, build = self._build()
        try:
            whole = await self._node.get(cluster_state.LED_STATE, filter_path=cluster_state.LED_STATE_FILTER)
            state = cluster_state.ClusterState.of(whole)
            answer = await self._node.get("/_cluster/settings", flat_settings="true")
            settings = cluster_actions.settings_in_force(answer)
            prefix = self._prefix(desired)
            held = cluster_actions.held(prefix, peers, state, settings)
            all_in = cluster_actions.are_all_in(peers, state)
            release = self._attendance.suffices(all_in, held, time.monotonic())
            acts = cluster_actions.cluster_actions(
                prefix, peers, state, settings, build.numbers, release=release
            )
            for act in acts:
                if not leads():
                    raise HookFailed("another pilot leads the cluster now")
                await self._carry_out(act)
            health = await self._node.get("/_cluster/health")
            moving = bool(health.get("relocating_shards") or health.get("initializing_shards"))
            left = cluster_actions.shards_left(peers, state, settings)
            if self._drain.stands_still(left, moving=moving, now=time.monotonic()) and leads():
                await self._node.post("/_cluster/reroute", retry_failed="true", filter_path="acknowledged")
            spread = await self._rebalanced(desired, peers, state, settings, leads, moving=moving)
            copies = await self._copied_indices(desired, peers, state, health, leads, all_in=all_in)
        except NodeRequestFailed as problem:
            raise HookFailed(f"failed to manage the cluster: {problem}") from None
        held_back = bool(held) or settings.get(cluster_actions.ALLOCATION, "all") != "all"
        facts = cluster_state.health_facts(health, held_back=held_back)
        read_only = cluster_state.read_only_indices(whole)
        if read_only is not None:
            facts["readOnlyIndices"] = read_only
        if spread is not None:
            facts["rebalance"] = spread
        if copies is not None:
            facts["redundancy"] = copies
        count = read_only["count"] if read_only is not None else 0
        cluster = self._who(desired)["cluster"]
        self._metrics = tuple(elasticsearch_metrics.cluster_metrics(health, count, cluster=cluster))
        facts["members"] = cluster_actions.members(peers, state)
        if waiting := cluster_actions.without_vote(prefix, peers, state, settings):
            facts["withoutVote"] = sorted(waiting)
        if state.uuid:
            facts["clusterUUID"] = state.uuid
        if why := await self._explained(facts):
            facts["shards"]["explanation"] = why
        return facts

    async def _rebalanced(
        self,
        desired: DesiredState,
        peers: Sequence[Object],
        state: cluster_state.ClusterState,
        settings: Mapping[str, Any],
        leads: Callable[[], bool],
        *,
        moving: bool,
    ) -> Tree | None:
        """Allow or forbid rebalancing, as requested. Raises ``NodeRequestFailed``."""
        shards = rebalance.shards_by_node(peers, state)
        still = self._rebalance.stands_still(shards, moving=moving, now=time.monotonic())
        decision = rebalance.rebalance_decision(
            peers, settings, desired.settings, shards, moving=moving, still=still, now=time.time()
        )
        if decision.settings:
            if not leads():
                raise HookFailed("another pilot leads the cluster now")
            # What stood still before rebalancing was allowed says nothing about what it does.
            self._rebalance = cluster_actions.DrainProgress(rebalance.STILL)
            await self._carry_out(cluster_actions.SetSettings(decision.settings))
        return decision.facts

    async def _copied_indices(
        self,
        desired: DesiredState,
        peers: Sequence[Object],
        state: cluster_state.ClusterState,
        health: Tree,
        leads: Callable[[], bool],
        *,
        all_in: bool,
    ) -> Tree | None:
        """Set the copies of indices, if some are asked for. Raises ``NodeRequestFailed``."""
        asked = (desired.spec.get("elasticsearch") or {}).get("redundancy")
        if not asked:
            return None
        answer = await self._node.get(
            redundancy.INDEX_SETTINGS, flat_settings="true", expand_wildcards="open"
        )
        known = cluster_state.health_facts(health, held_back=False)
        decision = redundancy.copies_decision(
            asked,
            redundancy.copies_by_index(answer),
            redundancy.data_nodes(peers, state),
            str(known.get("health") or ""),
            settled=all_in and known["settled"],
        )
        for act in decision.acts:
            if not leads():
                raise HookFailed("another pilot leads the cluster now")
            names = quote(",".join(act.indices), safe=",")
            await self._node.put(f"/{names}/_settings", {redundancy.COPIES: act.copies})
        return decision.facts

    async def _explained(self, facts: Tree) -> str:
        """Why shards are unassigned; without an answer, the rest is reported all the same."""
        if self._inquiry.is_due(facts, time.monotonic()):
            try:
                query = {"filter_path": allocation_explain.EXPLAIN_FILTER}
                self._inquiry.learn(await self._node.get(allocation_explain.EXPLAIN, **query))
            except NodeRequestFailed as problem:
                log.warning("can't explain unassigned shards: %s", problem)
        return self._inquiry.answer

    async def _carry_out(self, act: cluster_actions.Act) -> None:
        match act:
            case cluster_actions.SetSettings(settings):
                # A transient setting would win over the persistent one.
                body = {"persistent": dict(settings), "transient": dict.fromkeys(settings)}
                await self._node.put("/_cluster/settings", body)
            case cluster_actions.IncludeVoters():
                await self._node.delete("/_cluster/voting_config_exclusions", wait_for_removal="false")
            case cluster_actions.ExcludeVoters(names):
                _, build = self._build()
                path, listed = "/_cluster/voting_config_exclusions", ",".join(names)
                if build.numbers >= (7, 8):
                    await self._node.post(path, node_names=listed, timeout="8s")
                else:
                    await self._node.post(f"{path}/{listed}", timeout="8s")

    async def _local_state(self) -> cluster_state.ClusterState:
        """The cluster as this node sees it."""
        query = {"local": "true", "filter_path": cluster_state.STATE_FILTER}
        return cluster_state.ClusterState.of(await self._node.get(cluster_state.STATE, **query))

    async def _left(self, desired: DesiredState, build: Build) -> tuple[str, int | None]:
        """What keeps this node from being removed, and the master's count of its shards, if known.

        Asked of the master in this order: a node that is excluded, and then holds nothing, gets nothing more.
        """
        try:
            answer = await self._node.get("/_cluster/settings", flat_settings="true")
            settings = cluster_actions.settings_in_force(answer)
            asked = cluster_actions.decommission(desired.uid, desired.generation)
            if cluster_actions.decommissions(settings).get(self._instance.name) != asked:
                return "shards may still come: the leading pilot has not excluded this node yet", None
            copies = await self._node.get(cluster_state.STATE, filter_path=cluster_state.COPIES_FILTER)
            holders = await self._node.get(cluster_state.DATA_NODES, filter_path=cluster_state.NODES_FILTER)
        except NodeRequestFailed as problem:
            return f"it is not known what is left on it: {problem}", None
        state = cluster_state.ClusterState.of(copies)
        id = state.id_of(self._instance.name)
        if not state.has_master or not id:
            return "the node is not part of the cluster, so what is left on it is unknown", None
        excluded = str(settings.get(cluster_actions.EXCLUDED) or "").split(",")
        staying = {
            each for each in (holders.get("nodes") or {}) if state.names.get(each, "") not in (*excluded, "")
        }
        shards = state.shards.get(id, 0)
        if waiting := cluster_state.not_elsewhere(id, cluster_state.copies_of(copies), staying):
            return "1 shard is left" if waiting == 1 else f"{waiting} shards are left", shards
        if id in (holders.get("nodes") or {}) and (lost := cluster_state.missing_indices(copies)):
            last = f"shards of {', '.join(lost)} are on no node, and this one may have the last copy of them"
            return last, shards
        if self.is_candidate(desired) and build.numbers >= (7, 0) and id in state.voters:
            return "it still has a vote among the masters", shards
        if self.is_candidate(desired) and build.numbers < (7, 0):
            enough, present = desired.settings.get(MINIMUM_MASTERS), settings.get(MINIMUM_MASTERS)
            if enough is not None and str(present) != str(enough):
                said = f"{present} masters have to see each other, and {enough} have to be enough without it"
                return said, shards
        return "", shards

    def _must_form(self, desired: DesiredState, state: cluster_state.ClusterState, build: Build) -> str:
        """Why a node that was started before its pilot led has to be restarted to form the cluster."""
        may_form = desired.leads and desired.settings.get(INITIAL_MASTERS) and build.numbers >= (7, 0)
        if not may_form or state.uuid:
            return ""
        file = self._layout.configuration / "elasticsearch.yml"
        if INITIAL_MASTERS in file.read_text():
            return ""
        return "its pilot has come to lead a cluster that has not been formed yet"

    async def _check(self, desired: DesiredState) -> None:
        home, build = self._build()
        if desired.settings.get(SECURITY) and not build.secured:
            raise HookFailed(
                f"spec.security is set, but the Elasticsearch at {home} has no security (there is no "
                "modules/x-pack-security), so it is not started. Use a distribution that has it, such as "
                "Elastic's own image, or remove spec.security",
                {"security": tls_and_users.state(build.secured, True)},
            )
        preflight.check_machine(self._layout, build, self._instance.address)

    async def _await_leader(self, desired: DesiredState) -> None:
        forms_cluster = desired.settings.get(INITIAL_MASTERS) and self.is_candidate(desired)
        if forms_cluster and not desired.leads and not desired.leader:
            raise HookNotReady("the pilots have not elected yet the one that forms the cluster")

    async def _write(self, desired: DesiredState) -> None:
        home, build = self._build()
        settings = settings_of(
            desired,
            self._instance,
            build,
            data=self._layout.data,
            logs=self._layout.logs,
            maps_memory=preflight.maps_memory(),
        )
        if self._secrets is not None and settings.get(SECURITY):
            settings |= tls_and_users.ssl_settings()
        files = (desired.spec.get("configuration") or {}).get("files") or {}
        preflight.write_configuration(self._layout, home, build, settings, files)

    async def _take_up_secrets(self, desired: DesiredState) -> None:
        if self._secrets is None or not desired.settings.get(SECURITY):
            return
        home, build = self._build()
        self._secrets.take_up(self._layout.configuration)
        environ = self._environ(desired, build, home)
        await self._secrets.store_password(home, self._layout.configuration, environ)

    async def _install(self, desired: DesiredState) -> None:
        self._plugins = []
        wanted = self._wanted_plugins(desired)
        if wanted:
            try:
                target = self._copy()
                home, build = self._build()
                environ = self._environ(desired, build, target)
                self._plugins = await plugins.install(target, home, wanted, environ)
            except HookFailed as problem:
                if not desired.decommission:
                    raise
                # A plugin must not keep a decommissioned node from giving its data away.
                log.warning("the node is started without plugins that it should have: %s", problem)
                told = problem.status.get("plugins") or [
                    {"name": each["name"], "status": "Failed", "message": str(problem)} for each in wanted
                ]
                self._plugins = [
                    {**each, "status": "Unknown"} if each["status"] == "Failed" else each for each in told
                ]
        keep = self._copied if wanted else None
        await asyncio.to_thread(image_copy.clear_away, self._layout.root, keep=keep)

    async def _hold_back(self) -> None:
        """Keep replicas of this node's shards from being built elsewhere during a restart."""
        try:
            state = await self._local_state()
            if state.has_master and len(state.names) > 1:
                await self._carry_out(
                    cluster_actions.SetSettings({cluster_actions.ALLOCATION: cluster_actions.HELD_BACK})
                )
        except NodeRequestFailed as problem:
            raise HookFailed(f"replicas could not be held back: {problem}") from None

    async def _flush(self) -> None:
        """Makes the next start faster. Nothing is lost without it, so it is tried once."""
        try:
            await self._node.post("/_flush")
        except NodeRequestFailed as problem:
            log.warning("what is in memory could not be written out before the stop: %s", problem)

    async def _give_vote_away(self) -> None:
        """Let the others have a master while this node is down."""
        _, build = self._build()
        if build.numbers < (7, 0):
            return
        try:
            state = await self._local_state()
            found = await self._node.get(cluster_state.MASTERS, filter_path=cluster_state.NODES_FILTER)
            masters = (found.get("nodes") or {}).keys()
            own = state.id_of(self._instance.name)
            if state.has_master and cluster_actions.gives_vote_away(own, masters, state):
                await self._carry_out(cluster_actions.ExcludeVoters((self._instance.name,)))
        except NodeRequestFailed as problem:
            raise HookFailed(f"the vote could not be given to another node: {problem}") from None

    def _build(self) -> tuple[Path, Build]:
        """Looked for once: it belongs to the image, and thus to this process."""
        if self._found is None:
            home = preflight.find_home(self._instance.environ)
            self._found = home, preflight.build_at(home)
        return self._found

    def _copy(self) -> Path:
        """The copy of the image, with plugins."""
        if self._copied is None:
            home, build = self._build()
            self._copied = image_copy.copy_of(home, build.version, self._layout.root)
        return self._copied

    def _environ(self, desired: DesiredState, build: Build, home: Path) -> dict[str, str]:
        environ = {**self._instance.environ, **desired.environment}
        environ.pop("ES_HOME", None)
        environ |= {
            "ES_PATH_CONF": str(self._layout.configuration),
            "ES_TMPDIR": str(self._layout.temporary),
            # Java keeps performance data in /tmp under its process number. Pods share that folder, and their
            # numbers are the same; the warning about a taken file would be read as options by the launcher.
            "JDK_JAVA_OPTIONS": f"{environ.get('JDK_JAVA_OPTIONS', '')} -XX:-UsePerfData".strip(),
        }
        variable = "ES_JAVA_HOME" if build.numbers >= (7, 0) else "JAVA_HOME"
        java = shutil.which("java", path=environ.get("PATH"))
        if not (home / "jdk").exists() and variable not in environ and java is not None:
            environ[variable] = str(Path(os.path.realpath(java)).parent.parent)
        return environ

    def _who(self, desired: DesiredState) -> dict[str, str]:
        """Labels of the node's metrics."""
        return {"cluster": str(desired.settings.get("cluster.name") or ""), "name": self._instance.name}

    def _prefix(self, desired: DesiredState) -> str:
        return f"es-{desired.settings.get('cluster.name') or ''}-"

    def _wanted_plugins(self, desired: DesiredState) -> Sequence[Tree]:
        return (desired.spec.get("elasticsearch") or {}).get("plugins") or ()


def make(instance: InstanceEnvironment) -> Elasticsearch:
    return Elasticsearch(instance)
