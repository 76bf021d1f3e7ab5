"""Scheduling and resources of a pool's pods, with the fields of Kubernetes' core group."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pilothouse.meta.schema.struct_schemas import Fields, Int32, Int64, Quantity, doc, field


class ResourceRequirements(Fields):
    """What a database container asks for and may use at most."""

    limits: Annotated[dict[str, Quantity], doc("The most it may use of each resource (cpu, memory).")] = (
        field(default_factory=dict)
    )
    requests: Annotated[dict[str, Quantity], doc("What a node must have free to run it.")] = field(
        default_factory=dict
    )
    claims: Annotated[
        tuple[dict[str, Any], ...], doc("Claims on devices that the container uses, as in a pod.")
    ] = ()


class Toleration(Fields):
    """A taint that does not keep a pod off a node."""

    key: Annotated[str, doc("The key of the taint; empty with operator Exists matches every taint.")] = ""
    operator: Annotated[
        Literal["Exists", "Equal"] | None, doc("How the value is compared; Equal if absent.")
    ] = None
    value: Annotated[str, doc("The value of the taint, for operator Equal.")] = ""
    effect: Annotated[
        Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None,
        doc("The effect of the taint; absent matches every effect."),
    ] = None
    toleration_seconds: Annotated[
        Int64 | None,
        doc("How long a pod stays on a node that gets a NoExecute taint; absent means without limit."),
    ] = None


class NodeSelectorRequirement(Fields):
    """One demand on a node's labels or fields."""

    key: Annotated[str, doc("The label or field.")]
    operator: Annotated[
        Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"],
        doc("How it is compared with the values."),
    ]
    values: Annotated[tuple[str, ...], doc("What it is compared with.")] = ()


class NodeSelectorTerm(Fields):
    """Demands that a node has to meet together."""

    match_expressions: Annotated[
        tuple[NodeSelectorRequirement, ...], doc("Demands on the node's labels.")
    ] = ()
    match_fields: Annotated[tuple[NodeSelectorRequirement, ...], doc("Demands on the node's fields.")] = ()


class NodeSelector(Fields):
    """Nodes that meet at least one of the terms."""

    node_selector_terms: Annotated[tuple[NodeSelectorTerm, ...], doc("The terms, one of which must hold.")]


class PreferredSchedulingTerm(Fields):
    """A preference for some nodes."""

    weight: Annotated[Int32, doc("How much it counts, from 1 to 100.", ge=1, le=100)]
    preference: Annotated[NodeSelectorTerm, doc("The nodes that are preferred.")]


class NodeAffinity(Fields):
    """Nodes that the pods need or prefer."""

    required_during_scheduling_ignored_during_execution: Annotated[
        NodeSelector | None, doc("Nodes without which a pod is not scheduled.")
    ] = None
    preferred_during_scheduling_ignored_during_execution: Annotated[
        tuple[PreferredSchedulingTerm, ...], doc("Nodes that are better than others.")
    ] = ()


class LabelSelectorRequirement(Fields):
    """One demand on an object's labels."""

    key: Annotated[str, doc("The label.")]
    operator: Annotated[
        Literal["In", "NotIn", "Exists", "DoesNotExist"], doc("How it is compared with the values.")
    ]
    values: Annotated[tuple[str, ...], doc("What it is compared with.")] = ()


class LabelSelectorField(Fields):
    """Objects chosen by their labels; all demands have to be met, and no demand means every object."""

    match_labels: Annotated[dict[str, str], doc("Labels and the values they must have.")] = field(
        default_factory=dict
    )
    match_expressions: Annotated[
        tuple[LabelSelectorRequirement, ...], doc("Demands beyond plain equality.")
    ] = ()


class PodAffinityTerm(Fields):
    """Pods that a pod wants to be near, or far from."""

    topology_key: Annotated[str, doc("The node label whose value says what counts as the same place.")]
    label_selector: Annotated[LabelSelectorField | None, doc("The pods that are meant.")] = None
    namespaces: Annotated[tuple[str, ...], doc("The namespaces they are in; this one if none is named.")] = ()
    namespace_selector: Annotated[
        LabelSelectorField | None, doc("The namespaces they are in, chosen by label.")
    ] = None
    match_label_keys: Annotated[
        tuple[str, ...], doc("Labels of the pod whose values narrow the selector.")
    ] = ()
    mismatch_label_keys: Annotated[
        tuple[str, ...], doc("Labels of the pod whose values are excluded from the selector.")
    ] = ()


class WeightedPodAffinityTerm(Fields):
    """A preference for the neighbourhood of some pods."""

    weight: Annotated[Int32, doc("How much it counts, from 1 to 100.", ge=1, le=100)]
    pod_affinity_term: Annotated[PodAffinityTerm, doc("The pods.")]


class PodAffinity(Fields):
    """Pods that the pool's pods need or prefer to be near to, or far from."""

    required_during_scheduling_ignored_during_execution: Annotated[
        tuple[PodAffinityTerm, ...], doc("Demands without which a pod is not scheduled.")
    ] = ()
    preferred_during_scheduling_ignored_during_execution: Annotated[
        tuple[WeightedPodAffinityTerm, ...], doc("Wishes that make some nodes better than others.")
    ] = ()


class Affinity(Fields):
    """Nodes and neighbours that the pool's pods need or prefer."""

    node_affinity: Annotated[NodeAffinity | None, doc("Nodes to run on.")] = None
    pod_affinity: Annotated[PodAffinity | None, doc("Pods to run near to.")] = None
    pod_anti_affinity: Annotated[PodAffinity | None, doc("Pods to keep away from.")] = None


class TopologySpreadConstraint(Fields):
    """How evenly the pool's pods are spread over places."""

    max_skew: Annotated[Int32, doc("By how many pods two places may differ.", ge=1)]
    topology_key: Annotated[
        str, doc("The node label whose value says what counts as the same place.", min_length=1)
    ]
    when_unsatisfiable: Annotated[
        Literal["DoNotSchedule", "ScheduleAnyway"], doc("What to do with a pod that would upset the balance.")
    ]


Tolerations = Annotated[
    tuple[Toleration, ...],
    doc("Taints that don't keep the pods off a machine.", list_type="atomic", max_length=100),
]
TopologySpreadConstraints = Annotated[
    tuple[TopologySpreadConstraint, ...],
    doc(
        "How evenly the pods are spread over places.",
        map_keys=("topologyKey", "whenUnsatisfiable"),
        max_length=100,
    ),
]
