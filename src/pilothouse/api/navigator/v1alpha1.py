"""``navigator.jetstack.io/v1alpha1``: the original clusters and pilots; see ``conversion``."""

from __future__ import annotations

from typing import Annotated

from pilothouse.api.navigator.clusters import (
    MOST_REPLICAS,
    ClusterCondition,
    ConditionStatus,
    Health,
    ImageSpec,
    NodeLabels,
    Role,
    SecurityContext,
)
from pilothouse.api.navigator.scheduling import ResourceRequirements
from pilothouse.meta.object_meta import ApiObject
from pilothouse.meta.schema.struct_schemas import Fields, Int32, Int64, Quantity, Time, doc, field

VERSION = "v1alpha1"
PACKAGE = "io.jetstack.navigator.v1alpha1"

PilotImage = Annotated[
    ImageSpec | None,
    doc("The image that the pilot is taken from. Needed here, except by a cluster made without in v1beta1."),
]


class PersistenceConfig(Fields):
    """The volume that each node of a pool keeps its data on."""

    enabled: Annotated[
        bool | None,
        doc("Deprecated. False means no volumes, as without persistence; true means nothing."),
    ] = None
    size: Annotated[
        Quantity | None, doc("How much space each node gets, such as 10Gi. Needed unless enabled is false.")
    ] = None
    storage_class: Annotated[
        str | None, doc("The storage class of the volumes; absent means the cluster's default class.")
    ] = None


class ElasticsearchNodePool(Fields):
    """Nodes that are alike. Only replicas can be changed once the pool exists."""

    name: Annotated[str, doc("Part of the names of the pool's pods; unique in the cluster.")]
    roles: Annotated[tuple[Role, ...], doc("What the nodes do.", min_length=1, list_type="set")]
    replicas: Annotated[Int32, doc("How many nodes there are, at most 1000.", ge=0, le=MOST_REPLICAS)] = 1
    node_selector: NodeLabels = field(default_factory=dict)
    resources: Annotated[ResourceRequirements | None, doc("What each node asks for and may use.")] = None
    persistence: Annotated[
        PersistenceConfig | None, doc("The nodes' volumes; absent means that data goes with the pod.")
    ] = None
    scheduler_name: Annotated[str, doc("The scheduler of the pods; empty means the default scheduler.")] = ""


class ElasticsearchClusterSpec(Fields):
    """The desired state of the cluster."""

    version: Annotated[str, doc("The version of Elasticsearch, such as 6.8.23; a change is rolled out.")]
    pilot_image: PilotImage = None
    security_context: Annotated[SecurityContext | None, doc("The user that Elasticsearch runs as.")] = None
    paused: Annotated[bool, doc("Nothing is changed while set.")] = False
    image: Annotated[
        ImageSpec | None,
        doc("The image of Elasticsearch; absent means Elastic's own, tagged with the version."),
    ] = None
    plugins: Annotated[
        tuple[Annotated[str, doc(min_length=1)], ...], doc("The plugins of every node.", list_type="set")
    ] = ()
    node_pools: Annotated[
        tuple[ElasticsearchNodePool, ...], doc("The pools of nodes.", map_keys=("name",))
    ] = ()
    minimum_masters: Annotated[
        Int32 | None,
        doc("How many masters have to see each other to elect one; absent means a majority of them."),
    ] = None


class NodePoolStatus(Fields):
    """What is known about a pool."""

    ready_replicas: Annotated[Int32, doc("How many of its nodes are ready.")] = 0


class ElasticsearchClusterStatus(Fields):
    """What is known about the cluster."""

    conditions: Annotated[tuple[ClusterCondition, ...], doc("Its conditions.", map_keys=("type",))] = ()
    node_pools: Annotated[dict[str, NodePoolStatus], doc("The pools, by name.")] = field(default_factory=dict)
    health: Annotated[Health | None, doc("The health that the cluster reports; absent means unknown.")] = None


class ElasticsearchCluster(ApiObject, kw_only=True):
    """A cluster of Elasticsearch nodes in pools."""

    spec: Annotated[ElasticsearchClusterSpec, doc("The desired state of the cluster.")]
    status: Annotated[ElasticsearchClusterStatus | None, doc("The observed state.")] = None


class CassandraNodePool(Fields):
    """Nodes that are alike: one rack of a datacenter. Only replicas can be changed once the pool exists."""

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


class CassandraClusterSpec(Fields):
    """The desired state of the cluster."""

    version: Annotated[str, doc("The version of Cassandra, such as 3.11 or 5.0.2, in quotes.")]
    pilot_image: PilotImage = None
    security_context: Annotated[SecurityContext | None, doc("The user that Cassandra runs as.")] = None
    paused: Annotated[bool, doc("Nothing is changed while set.")] = False
    image: Annotated[
        ImageSpec | None,
        doc("The image of Cassandra; absent means docker.io/cassandra, tagged with the version."),
    ] = None
    node_pools: Annotated[tuple[CassandraNodePool, ...], doc("The pools of nodes.", map_keys=("name",))] = ()


class CassandraClusterStatus(Fields):
    """What is known about the cluster."""

    conditions: Annotated[tuple[ClusterCondition, ...], doc("Its conditions.", map_keys=("type",))] = ()
    node_pools: Annotated[dict[str, NodePoolStatus], doc("The pools, by name.")] = field(default_factory=dict)


class CassandraCluster(ApiObject, kw_only=True):
    """A cluster of Cassandra nodes in racks and datacenters."""

    spec: Annotated[CassandraClusterSpec, doc("The desired state of the cluster.")]
    status: Annotated[CassandraClusterStatus | None, doc("The observed state.")] = None


class PilotPlugin(Fields):
    """A plugin that the instance should have."""

    name: Annotated[str, doc("Its name.", min_length=1)]


class PilotElasticsearch(Fields):
    """What an Elasticsearch instance should be like."""

    node_pool: Annotated[str, doc("The pool that the instance belongs to.")] = ""
    plugins: Annotated[tuple[PilotPlugin, ...], doc("The plugins it should have.", map_keys=("name",))] = ()


class PilotSpec(Fields):
    """The desired state of the instance."""

    decommission: Annotated[
        bool | None, doc("Move all data off this instance and say so in the condition Decommissioned.")
    ] = None
    in_service: Annotated[bool | None, doc("The opposite of decommission.")] = None
    elasticsearch: Annotated[PilotElasticsearch | None, doc("For an Elasticsearch instance.")] = None


class PilotCondition(Fields):
    """One thing that is known about an instance."""

    type: Annotated[str, doc("The type: Ready, Started, Stopped, Decommissioned, PodPresent.", min_length=1)]
    status: Annotated[ConditionStatus, doc("True, False or Unknown.")]
    last_transition_time: Annotated[Time | None, doc("When the status last changed.")] = None
    reason: Annotated[str, doc("The reason, in one word for programs.")] = ""
    message: Annotated[str, doc("The reason, in a sentence for people.")] = ""


class PilotPluginStatus(Fields):
    """Whether a plugin is there."""

    name: Annotated[str, doc("Its name.", min_length=1)]
    status: Annotated[str, doc("Unknown, Installed or Failed.")] = ""


class PilotElasticsearchStatus(Fields):
    """What is known about an Elasticsearch instance."""

    documents: Annotated[Int64 | None, doc("How many documents it holds; absent means unknown.")] = None
    version: Annotated[str | None, doc("The version it runs; absent means unknown.")] = None
    plugins: Annotated[
        tuple[PilotPluginStatus, ...], doc("The plugins it has, or failed to get.", map_keys=("name",))
    ] = ()


class PilotCassandraStatus(Fields):
    """What is known about a Cassandra instance."""

    version: Annotated[str | None, doc("The version it runs; absent means unknown.")] = None


class PilotStatus(Fields):
    """What is known about the instance."""

    conditions: Annotated[tuple[PilotCondition, ...], doc("Its conditions.", map_keys=("type",))] = ()
    elasticsearch: Annotated[PilotElasticsearchStatus | None, doc("For an Elasticsearch instance.")] = None
    cassandra: Annotated[PilotCassandraStatus | None, doc("For a Cassandra instance.")] = None


class Pilot(ApiObject, kw_only=True):
    """One instance of a database, and the pilot process beside it. It has the name of its pod."""

    spec: Annotated[PilotSpec, doc("The desired state of the instance.")] = PilotSpec()
    status: Annotated[PilotStatus | None, doc("The observed state.")] = None
