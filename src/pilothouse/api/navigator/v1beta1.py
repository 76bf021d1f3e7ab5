"""``navigator.jetstack.io/v1beta1``: the hub, and the version that is stored.

Names are those of ``v1alpha1``, except that plugins have sources. Fields that only this version has carry no
default, so that an object written through ``v1alpha1`` reads the same here, defaulted again or not.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pilothouse.api.navigator.clusters import (
    MOST_REPLICAS,
    ConditionStatus,
    Health,
    ImageSpec,
    NodeLabels,
    PersistenceConfig,
    Role,
    SecurityContext,
)
from pilothouse.api.navigator.scheduling import (
    Affinity,
    ResourceRequirements,
    Tolerations,
    TopologySpreadConstraints,
)
from pilothouse.api.status_fields import ObservedGeneration
from pilothouse.meta.object_meta import ApiObject
from pilothouse.meta.schema.struct_schemas import Fields, Int32, Int64, Quantity, Time, doc, field

VERSION = "v1beta1"
PACKAGE = "io.jetstack.navigator.v1beta1"

Retention = Literal["Retain", "Delete"]


class ClaimRetentionPolicy(Fields):
    """What becomes of volumes that no node uses any more."""

    when_deleted: Annotated[Retention, doc("When the cluster or the pool is deleted.")] = "Retain"
    when_scaled: Annotated[Retention, doc("When a pool gets fewer replicas.")] = "Retain"


class ClusterCondition(Fields):
    """One thing that is known about a cluster."""

    type: Annotated[
        str, doc("The type: Available, Progressing, Degraded, Paused, Secured or Redundant.", min_length=1)
    ]
    status: Annotated[ConditionStatus, doc("True, False or Unknown.")]
    observed_generation: Annotated[Int64 | None, doc("The generation of the spec that it is about.")] = None
    last_transition_time: Annotated[Time | None, doc("When the status last changed.")] = None
    reason: Annotated[str, doc("The reason, in one word for programs.")] = ""
    message: Annotated[str, doc("The reason, in a sentence for people, and what would help.")] = ""


class NodePoolStatus(Fields):
    """What is known about a pool."""

    ready_replicas: Annotated[Int32, doc("How many of its nodes are ready.")] = 0
    replicas: Annotated[Int32 | None, doc("How many nodes it has.")] = None
    current_replicas: Annotated[Int32 | None, doc("How many still run what they ran before the change.")] = (
        None
    )
    updated_replicas: Annotated[Int32 | None, doc("How many run what the spec asks for.")] = None
    version: Annotated[str | None, doc("The lowest version that any of its nodes reports.")] = None


class ElasticsearchPlugin(Fields):
    """A plugin of Elasticsearch."""

    name: Annotated[str, doc("Its name, such as analysis-icu, or its coordinates.", min_length=1)]
    url: Annotated[
        str | None,
        doc("Where it is taken from (https:, http: or file:); absent means by name, or from the image."),
    ] = None


class ElasticsearchNodePool(Fields):
    """Nodes that are alike. Name and roles stay; the rest can be changed and is rolled out."""

    name: Annotated[str, doc("Part of the names of the pool's pods; unique in the cluster.")]
    roles: Annotated[tuple[Role, ...], doc("What the nodes do.", min_length=1, list_type="set")]
    replicas: Annotated[Int32, doc("How many nodes there are, at most 1000.", ge=0, le=MOST_REPLICAS)] = 1
    node_selector: NodeLabels = field(default_factory=dict)
    resources: Annotated[ResourceRequirements | None, doc("What each node asks for and may use.")] = None
    persistence: Annotated[
        PersistenceConfig | None,
        doc("The nodes' volumes, which can grow; absent means that data goes with the pod."),
    ] = None
    scheduler_name: Annotated[str, doc("The scheduler of the pods; empty means the default scheduler.")] = ""
    config: Annotated[
        dict[str, Any], doc("Settings for elasticsearch.yml, on top of those of the cluster.")
    ] = field(default_factory=dict)
    heap_size: Annotated[
        Quantity | None, doc("The heap of the Java virtual machine; absent means half of the memory limit.")
    ] = None
    affinity: Annotated[Affinity | None, doc("Nodes and other pods that the pods require or prefer.")] = None
    tolerations: Tolerations = ()
    topology_spread_constraints: TopologySpreadConstraints = ()


class ElasticsearchSecurity(Fields):
    """Encryption and users, of a distribution that has them; one that has none is not started."""

    certificates_secret_name: Annotated[
        str | None,
        doc("The Secret with ca.crt, tls.crt and tls.key of the nodes; absent means that one is created."),
    ] = None
    users_secret_name: Annotated[
        str | None,
        doc(
            "The Secret with the password of the user elastic, under that name; absent means that one is "
            "created."
        ),
    ] = None


class ElasticsearchRedundancy(Fields):
    """How many copies a cluster keeps of its indices. A change restarts nothing."""

    copies: Annotated[
        Int32,
        doc(
            "Copies of each shard besides the primary (number_of_replicas), as far as there are data nodes "
            "for them.",
            ge=0,
            le=MOST_REPLICAS,
        ),
    ]
    indices: Annotated[
        tuple[str, ...],
        doc(
            "The indices, by name or pattern such as logs-*; absent means all whose names begin with no dot.",
            list_type="set",
            max_length=100,
        ),
    ] = ()


class ElasticsearchClusterSpec(Fields):
    """The desired state of the cluster."""

    version: Annotated[str, doc("The version of Elasticsearch, such as 8.17.0; a change is rolled out.")]
    pilot_image: Annotated[
        ImageSpec | None, doc("The image that the pilot is taken from; absent means the installed one.")
    ] = None
    security_context: Annotated[SecurityContext | None, doc("The user that Elasticsearch runs as.")] = None
    paused: Annotated[bool, doc("Nothing is changed while set.")] = False
    image: Annotated[
        ImageSpec | None,
        doc("The image of Elasticsearch; absent means Elastic's own, tagged with the version."),
    ] = None
    plugins: Annotated[
        tuple[ElasticsearchPlugin, ...], doc("The plugins of every node.", map_keys=("name",))
    ] = ()
    node_pools: Annotated[
        tuple[ElasticsearchNodePool, ...], doc("The pools of nodes.", map_keys=("name",))
    ] = ()
    minimum_masters: Annotated[
        Int32 | None,
        doc(
            "How many masters have to see each other to elect one, for Elasticsearch up to 6; "
            "absent means a majority. From 7 on Elasticsearch counts for itself, "
            "and this is the least number of masters kept."
        ),
    ] = None
    config: Annotated[dict[str, Any], doc("Settings for the elasticsearch.yml of every node.")] = field(
        default_factory=dict
    )
    persistent_volume_claim_retention_policy: Annotated[
        ClaimRetentionPolicy | None,
        doc("What happens to volumes that no node uses any more; absent means that they are kept."),
    ] = None
    security: Annotated[
        ElasticsearchSecurity | None,
        doc(
            "Encrypts connections of nodes and clients, and requires users to log in. It can't be changed "
            "once the cluster is formed: nodes with and without encryption can't talk to each other."
        ),
    ] = None
    redundancy: Annotated[
        ElasticsearchRedundancy | None,
        doc("How many copies the indices have; absent means that each index keeps its own setting."),
    ] = None


class ShardCounts(Fields):
    """The shards of a cluster, by what they are doing."""

    active: Annotated[Int32, doc("Serving.")] = 0
    relocating: Annotated[Int32, doc("Moving to another node.")] = 0
    initializing: Annotated[Int32, doc("Being built.")] = 0
    unassigned: Annotated[Int32, doc("Without a node.")] = 0
    explanation: Annotated[
        str, doc("Why one stays without a node, in Elasticsearch's words, if waiting does not help.")
    ] = ""


class FullestVolume(Fields):
    """The volume of a cluster's data that has the least room."""

    name: Annotated[str, doc("The claim; empty if the node has none, and its data goes with its pod.")] = ""
    node: Annotated[str, doc("The node whose data is on it: its pod and its Pilot have this name.")]
    used_bytes: Annotated[Int64, doc("How much of it is used, by all processes.")]
    capacity_bytes: Annotated[Int64, doc("Its size: what is used and what is free.")]
    used_percent: Annotated[Int32, doc("How full it is.")]


class RebalanceReport(Fields):
    """Whether data is being rebalanced over the nodes, and how far a request for it is."""

    enabled: Annotated[bool, doc("Set if the cluster does it at any time, without a request.")] = False
    request: Annotated[str, doc("The request that this is about; empty if there is none.")] = ""
    state: Annotated[
        Literal["", "Allowed", "Even", "Stopped", "Expired", "Unneeded"],
        doc(
            "Allowed while data moves; Even when it lies evenly, or nothing moves any more; Stopped if a "
            "client forbade it meanwhile; Expired after its time; Unneeded if the cluster does it anyway."
        ),
    ] = ""
    message: Annotated[str, doc("How far it is, in a sentence for people.")] = ""


class ElasticsearchClusterStatus(Fields):
    """What is known about the cluster."""

    observed_generation: ObservedGeneration = None
    conditions: Annotated[tuple[ClusterCondition, ...], doc("Its conditions.", map_keys=("type",))] = ()
    node_pools: Annotated[dict[str, NodePoolStatus], doc("The pools, by name.")] = field(default_factory=dict)
    health: Annotated[Health | None, doc("The health that the cluster reports; absent means unknown.")] = None
    version: Annotated[str | None, doc("The lowest version that any node reports.")] = None
    replicas: Annotated[Int32 | None, doc("How many nodes there are, over all pools.")] = None
    ready_replicas: Annotated[Int32 | None, doc("How many nodes are ready, over all pools.")] = None
    shards: Annotated[ShardCounts | None, doc("The cluster's shards, as its leading pilot counted them.")] = (
        None
    )
    cluster_uuid: Annotated[
        str | None,
        doc("The id that Elasticsearch gave itself; once it is known, nothing is bootstrapped again."),
    ] = field(name="clusterUUID", default=None)
    fullest_volume: Annotated[
        FullestVolume | None, doc("The volume with the least room; absent means unknown.")
    ] = None
    rebalance: Annotated[
        RebalanceReport | None,
        doc("Whether shards are rebalanced; absent means as Elasticsearch does it by default: at any time."),
    ] = None


class ElasticsearchCluster(ApiObject, kw_only=True):
    """A cluster of Elasticsearch nodes in pools."""

    spec: Annotated[ElasticsearchClusterSpec, doc("The desired state of the cluster.")]
    status: Annotated[ElasticsearchClusterStatus | None, doc("The observed state.")] = None


class CassandraNodePool(Fields):
    """Nodes that are alike: one rack of a datacenter. Name, rack, datacenter and volumes stay as they are."""

    name: Annotated[str, doc("Part of the names of the pool's pods; unique in the cluster.")]
    replicas: Annotated[Int32, doc("How many nodes there are, at most 1000.", ge=0, le=MOST_REPLICAS)] = 1
    persistence: Annotated[
        PersistenceConfig | None, doc("The nodes' volumes; absent means that data goes with the pod.")
    ] = None
    node_selector: NodeLabels = field(default_factory=dict)
    rack: Annotated[str | None, doc("The rack of the nodes; the pool's name if absent.")] = None
    datacenter: Annotated[str, doc("The datacenter of the nodes.")] = "navigator-default-datacenter"
    resources: Annotated[ResourceRequirements | None, doc("What each node asks for and may use.")] = None
    scheduler_name: Annotated[str, doc("The scheduler of the pods; empty means the default scheduler.")] = ""
    config: Annotated[dict[str, Any], doc("Settings for cassandra.yaml, on top of those of the cluster.")] = (
        field(default_factory=dict)
    )
    heap_size: Annotated[
        Quantity | None, doc("The heap of the Java virtual machine; absent means half of the memory limit.")
    ] = None
    affinity: Annotated[Affinity | None, doc("Nodes and other pods that the pods require or prefer.")] = None
    tolerations: Tolerations = ()
    topology_spread_constraints: TopologySpreadConstraints = ()


class CassandraClusterSpec(Fields):
    """The desired state of the cluster."""

    version: Annotated[str, doc("The version of Cassandra, such as 3.11 or 5.0.2, in quotes.")]
    pilot_image: Annotated[
        ImageSpec | None, doc("The image that the pilot is taken from; absent means the installed one.")
    ] = None
    security_context: Annotated[SecurityContext | None, doc("The user that Cassandra runs as.")] = None
    paused: Annotated[bool, doc("Nothing is changed while set.")] = False
    image: Annotated[
        ImageSpec | None,
        doc("The image of Cassandra; absent means docker.io/cassandra, tagged with the version."),
    ] = None
    node_pools: Annotated[tuple[CassandraNodePool, ...], doc("The pools of nodes.", map_keys=("name",))] = ()
    config: Annotated[dict[str, Any], doc("Settings for the cassandra.yaml of every node.")] = field(
        default_factory=dict
    )
    persistent_volume_claim_retention_policy: Annotated[
        ClaimRetentionPolicy | None,
        doc("What happens to volumes that no node uses any more; absent means that they are kept."),
    ] = None


class CassandraClusterStatus(Fields):
    """What is known about the cluster."""

    observed_generation: ObservedGeneration = None
    conditions: Annotated[tuple[ClusterCondition, ...], doc("Its conditions.", map_keys=("type",))] = ()
    node_pools: Annotated[dict[str, NodePoolStatus], doc("The pools, by name.")] = field(default_factory=dict)
    version: Annotated[str | None, doc("The lowest version that any node reports.")] = None
    replicas: Annotated[Int32 | None, doc("How many nodes there are, over all pools.")] = None
    ready_replicas: Annotated[Int32 | None, doc("How many nodes are ready, over all pools.")] = None


class CassandraCluster(ApiObject, kw_only=True):
    """A cluster of Cassandra nodes in racks and datacenters."""

    spec: Annotated[CassandraClusterSpec, doc("The desired state of the cluster.")]
    status: Annotated[CassandraClusterStatus | None, doc("The observed state.")] = None


class PilotConfiguration(Fields):
    """What the database is to run with. A change is taken up by the instance and reported by its hash."""

    version: Annotated[str | None, doc("The version that the database should have.")] = None
    settings: Annotated[dict[str, Any], doc("Settings of the database, as its driver understands them.")] = (
        field(default_factory=dict)
    )
    files: Annotated[dict[str, str], doc("Further files, by name, as they are.")] = field(
        default_factory=dict
    )
    environment: Annotated[dict[str, str], doc("Variables of the database's environment.")] = field(
        default_factory=dict
    )


class PilotElasticsearch(Fields):
    """What an Elasticsearch instance should be like."""

    node_pool: Annotated[str, doc("The pool that the instance belongs to.")] = ""
    plugins: Annotated[
        tuple[ElasticsearchPlugin, ...], doc("The plugins it should have.", map_keys=("name",))
    ] = ()
    roles: Annotated[tuple[Role, ...], doc("What it does.", list_type="set")] = ()
    redundancy: Annotated[
        ElasticsearchRedundancy | None, doc("The copies that the leading pilot sees to, as the cluster's.")
    ] = None


class PilotCassandra(Fields):
    """What a Cassandra instance should be like."""

    node_pool: Annotated[str, doc("The pool that the instance belongs to.")] = ""
    rack: Annotated[str, doc("Its rack.")] = ""
    datacenter: Annotated[str, doc("Its datacenter.")] = ""
    seed: Annotated[bool, doc("Set if others join the cluster through it.")] = False


class PilotRebalance(Fields):
    """A request to spread the data of the whole cluster evenly over its nodes. \
The leading pilot allows it until it is done, the time is over or the request is removed."""

    request: Annotated[str, doc("Who asks, such as the uid of an ApplicationAction.", min_length=1)]
    until: Annotated[Time, doc("When it ends in any case.")]


class PilotSpec(Fields):
    """What the instance should be like. \
Each application adds a section of its own name (``pilot_schema``)."""

    decommission: Annotated[
        bool | None, doc("Move all data off this instance and say so in the condition Decommissioned.")
    ] = None
    in_service: Annotated[bool | None, doc("The opposite of decommission.")] = None
    application: Annotated[
        str | None, doc("The driver that knows the database, such as elasticsearch, cassandra or redis.")
    ] = None
    configuration: Annotated[PilotConfiguration | None, doc("What the database is to run with.")] = None
    rebalance: Annotated[
        PilotRebalance | None,
        doc("A request to rebalance its cluster; it may be in any Pilot of the cluster."),
    ] = None


class PilotCondition(Fields):
    """One thing that is known about an instance."""

    type: Annotated[
        str,
        doc("The type: Ready, Started, Stopped, Degraded, Decommissioned, PodPresent.", min_length=1),
    ]
    status: Annotated[ConditionStatus, doc("True, False or Unknown.")]
    observed_generation: Annotated[Int64 | None, doc("The generation of the spec that it is about.")] = None
    last_heartbeat_time: Annotated[Time | None, doc("When it was last confirmed.")] = None
    last_transition_time: Annotated[Time | None, doc("When the status last changed.")] = None
    reason: Annotated[str, doc("The reason, in one word for programs.")] = ""
    message: Annotated[str, doc("The reason, in a sentence for people, and what would help.")] = ""


class RunningConfiguration(Fields):
    """Which configuration the database does run with."""

    generation: Annotated[Int64, doc("The generation of the Pilot's spec that it was taken from.")]
    hash: Annotated[str, doc("The hash of the configuration.")]


class ProcessExit(Fields):
    """How the database last ended."""

    time: Annotated[Time, doc("When it ended.")]
    clean: Annotated[bool, doc("Set if it was stopped on request and ended normally.")] = False
    exit_code: Annotated[Int32 | None, doc("Its exit code; absent if a signal ended it.")] = None
    signal: Annotated[str | None, doc("The signal that ended it, such as SIGKILL.")] = None
    out_of_memory: Annotated[bool, doc("Set if the kernel killed it because memory ran out.")] = False
    message: Annotated[str, doc("The error lines among the last that it wrote.")] = ""
    log: Annotated[tuple[str, ...], doc("The last lines it wrote.", max_length=100)] = ()


class VolumeUsage(Fields):
    """How full the filesystem is that the data of an instance is on. \
Written when it changes by a hundredth, or passes 85, 90 or 95 %."""

    path: Annotated[str, doc("The folder of the data.")] = ""
    used_bytes: Annotated[Int64, doc("How much of it is used, by all processes.")]
    capacity_bytes: Annotated[Int64, doc("Its size: what is used and what is free.")]
    used_percent: Annotated[Int32, doc("How full it is.")]


class PilotPluginStatus(Fields):
    """Whether a plugin is there."""

    name: Annotated[str, doc("Its name.", min_length=1)]
    status: Annotated[str, doc("Unknown, Installed or Failed.")] = ""
    message: Annotated[str, doc("Why it failed.")] = ""


class ReadOnlyIndices(Fields):
    """Indices with the block read_only_allow_delete."""

    count: Annotated[Int32, doc("How many there are.")]
    names: Annotated[tuple[str, ...], doc("The first ten of them; _all is the whole cluster.")] = ()


class RedundancyFacts(Fields):
    """What the leading pilot has made of the redundancy that its Pilot asks for."""

    copies: Annotated[Int32, doc("How many copies were asked for.")]
    indices: Annotated[tuple[str, ...], doc("For which indices.", list_type="set")] = ()
    matching: Annotated[Int32, doc("How many indices these are.")] = 0
    kept: Annotated[bool, doc("Set if all of them have these copies, and all copies are there.")] = False
    message: Annotated[str, doc("What is waited for, in a sentence for people.")] = ""


class ElasticsearchClusterFacts(Fields):
    """What the leading pilot knows of the whole cluster; the controller copies it to the cluster's status."""

    health: Annotated[Health | None, doc("The health that the cluster reports.")] = None
    cluster_uuid: Annotated[str | None, doc("The id that Elasticsearch gave itself.")] = field(
        name="clusterUUID", default=None
    )
    nodes: Annotated[Int32 | None, doc("How many nodes see each other.")] = None
    shards: Annotated[ShardCounts | None, doc("The cluster's shards.")] = None
    members: Annotated[
        dict[str, str],
        doc(
            "The nodes that see each other, by name, "
            "each with its Pilot's lastStartedTime when this was seen."
        ),
    ] = field(default_factory=dict)
    settled: Annotated[
        bool | None,
        doc("Set if no shard is moving, delayed or held back: the health does not get better by waiting."),
    ] = None
    without_vote: Annotated[
        tuple[str, ...],
        doc("The masters that gave their vote away to be restarted, and have not got it back yet, by name."),
    ] = ()
    read_only_indices: Annotated[
        ReadOnlyIndices | None,
        doc("The indices that take no writes since a disk was nearly full; absent means none."),
    ] = None
    redundancy: Annotated[
        RedundancyFacts | None, doc("The copies of indices; absent if none are asked for.")
    ] = None
    rebalance: Annotated[
        RebalanceReport | None, doc("Whether shards are rebalanced; absent means at any time.")
    ] = None
    observed_time: Annotated[Time | None, doc("When this was seen.")] = None


class PilotElasticsearchStatus(Fields):
    """What is known about an Elasticsearch instance."""

    documents: Annotated[Int64 | None, doc("How many documents it holds; absent means unknown.")] = None
    version: Annotated[str | None, doc("The version it runs; absent means unknown.")] = None
    plugins: Annotated[
        tuple[PilotPluginStatus, ...], doc("The plugins it has, or failed to get.", map_keys=("name",))
    ] = ()
    shards: Annotated[Int32 | None, doc("How many shards it holds; absent means unknown.")] = None
    security: Annotated[
        Literal["Enabled", "Disabled", "Absent"] | None,
        doc("Whether it has encryption and users; Absent means that its distribution has none."),
    ] = None
    cluster: Annotated[ElasticsearchClusterFacts | None, doc("Written by the leading pilot alone.")] = None


class PilotCassandraStatus(Fields):
    """What is known about a Cassandra instance."""

    version: Annotated[str | None, doc("The version it runs; absent means unknown.")] = None
    host_id: Annotated[str | None, doc("The id under which the cluster knows its data.")] = field(
        name="hostID", default=None
    )
    state: Annotated[str | None, doc("Normal, Joining, Leaving or Moving.")] = None


class PilotStatus(Fields):
    """What is known about the instance; each application adds a section of its own name. \
Only its own pilot writes it, and the controller that finds that pilot silent."""

    observed_generation: ObservedGeneration = None
    phase: Annotated[
        Literal["Waiting", "PreStart", "Running", "PreStop", "Stopped"] | None,
        doc("The phase of the instance."),
    ] = None
    last_started_time: Annotated[Time | None, doc("When the process was last started.")] = None
    restarts: Annotated[Int32 | None, doc("How often the database was restarted.")] = None
    configuration: Annotated[RunningConfiguration | None, doc("What the database does run with.")] = None
    last_exit: Annotated[ProcessExit | None, doc("How the database last ended.")] = None
    version: Annotated[str | None, doc("The version of the database that runs.")] = None
    volume: Annotated[VolumeUsage | None, doc("The volume of its data; absent means unknown.")] = None
    conditions: Annotated[tuple[PilotCondition, ...], doc("Its conditions.", map_keys=("type",))] = ()


class Pilot(ApiObject, kw_only=True):
    """One instance of a database, and the pilot process beside it. It has the name of its pod."""

    spec: Annotated[PilotSpec, doc("The desired state of the instance.")] = PilotSpec()
    status: Annotated[PilotStatus | None, doc("The observed state.")] = None
