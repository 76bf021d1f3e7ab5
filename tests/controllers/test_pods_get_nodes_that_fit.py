"""What keeps a pod off a node, in the words that are told, and what would help."""

from __future__ import annotations

from typing import Any

import pytest
from tests.kit.scheduling_objects import claim, namespace, node, pod, seen, storage_class, volume

from pilothouse.api.objects import Tree
from pilothouse.controllers.scheduling.scheduler import scheduling
from pilothouse.runtime.intents import Bind, PatchObject, RecordEvent, SetStatus, Wait

ZONE = "topology.kubernetes.io/zone"


def placed(*trees: Tree) -> str:
    """The node that the first pod gets; or why it gets none."""
    intents = seen(scheduling, *trees)
    for intent in intents:
        if isinstance(intent, Bind):
            return intent.node
    (wait,) = (intent for intent in intents if isinstance(intent, Wait))
    assert wait.remedy
    return wait.because


def near(kind: str, *terms: Tree, required: bool = True) -> Tree:
    rule = "requiredDuringSchedulingIgnoredDuringExecution"
    if not required:
        rule, terms = (
            "preferredDuringSchedulingIgnoredDuringExecution",
            tuple({"weight": 10, "podAffinityTerm": term} for term in terms),
        )
    return {"affinity": {kind: {rule: list(terms)}}}


def term(key: str = "kubernetes.io/hostname", **fields: Any) -> Tree:
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": "db"}}, **fields}


def on_nodes(*expressions: Tree, fields: tuple[Tree, ...] = ()) -> Tree:
    terms = [{"matchExpressions": list(expressions), "matchFields": list(fields)}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return {"affinity": {"nodeAffinity": required}}


def rule(key: str, operator: str, *values: str) -> Tree:
    return {"key": key, "operator": operator, "values": list(values)}


TAINT = {"key": "dedicated", "value": "db", "effect": "NoSchedule"}
DB = {"app": "db"}
APART = "0/1 nodes are available: 1 node(s) didn't match pod anti-affinity rules."
UNSELECTED = "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector."


@pytest.mark.parametrize(
    ("asked", "there", "outcome"),
    [
        pytest.param({}, [], "no nodes available to schedule pods", id="no nodes"),
        pytest.param(
            {"nodeSelector": {"disk": "ssd"}},
            [node("n1"), node("n2", labels={"disk": "ssd"})],
            "n2",
            id="selector",
        ),
        pytest.param({"nodeSelector": {"disk": "ssd"}}, [node("n1")], UNSELECTED, id="selector in vain"),
        pytest.param(on_nodes(rule("gen", "Gt", "3")), [node("n1", labels={"gen": "4"})], "n1", id="greater"),
        pytest.param(
            on_nodes(rule("gen", "Lt", "3")), [node("n1", labels={"gen": "4"})], UNSELECTED, id="less"
        ),
        pytest.param(
            on_nodes(fields=(rule("metadata.name", "In", "n2"),)),
            [node("n1"), node("n2")],
            "n2",
            id="by name",
        ),
        pytest.param(on_nodes(), [node("n1")], UNSELECTED, id="a term that says nothing"),
        pytest.param(
            {},
            [node("n1", unschedulable=True)],
            "0/1 nodes are available: 1 node(s) were unschedulable.",
            id="cordoned",
        ),
        pytest.param(
            {},
            [node("n1", taints=[TAINT])],
            "0/1 nodes are available: 1 node(s) had untolerated taint {dedicated: db}.",
            id="tainted",
        ),
        pytest.param(
            {"tolerations": [{"key": "dedicated", "operator": "Exists"}]},
            [node("n1", taints=[TAINT])],
            "n1",
            id="tolerated",
        ),
        pytest.param(
            {"cpu": "2"},
            [node("n1", cpu="1"), node("n2", cpu="2"), pod("a", cpu="1", on="n2")],
            "0/2 nodes are available: 2 Insufficient cpu.",
            id="no room",
        ),
        pytest.param(
            {},
            [node("n1", pods="1"), pod("a", on="n1")],
            "0/1 nodes are available: 1 Too many pods.",
            id="full",
        ),
        pytest.param(
            {"containers": [{"name": "c", "ports": [{"containerPort": 1, "hostPort": 80}]}]},
            [
                node("n1"),
                pod(
                    "a",
                    on="n1",
                    containers=[{"name": "c", "ports": [{"hostPort": 80, "hostIP": "10.0.0.1"}]}],
                ),
            ],
            "0/1 nodes are available: 1 node(s) didn't have free ports for the requested pod ports.",
            id="ports",
        ),
        pytest.param(
            near("podAffinity", term(ZONE)),
            [node("n1", labels={ZONE: "a"}), node("n2", labels={ZONE: "b"}), pod("d", labels=DB, on="n2")],
            "n2",
            id="near",
        ),
        pytest.param(
            near("podAffinity", term(ZONE)),
            [node("n1", labels={ZONE: "a"})],
            "0/1 nodes are available: 1 node(s) didn't match pod affinity rules.",
            id="near nobody",
        ),
        pytest.param(
            {"labels": DB, **near("podAffinity", term(ZONE))},
            [node("n1", labels={ZONE: "a"})],
            "n1",
            id="the first of its kind",
        ),
        pytest.param(
            near("podAntiAffinity", term()), [node("n1"), pod("d", labels=DB, on="n1")], APART, id="apart"
        ),
        pytest.param(
            {"labels": DB},
            [node("n1"), pod("d", on="n1", **near("podAntiAffinity", term()))],
            "0/1 nodes are available: 1 node(s) didn't satisfy existing pods anti-affinity rules.",
            id="unwanted",
        ),
        pytest.param(
            near("podAntiAffinity", term(namespaceSelector={"matchLabels": {"team": "x"}})),
            [node("n1"), namespace("default", team="x"), pod("d", labels=DB, on="n1")],
            APART,
            id="apart from a team's",
        ),
        pytest.param(
            near("podAntiAffinity", term(namespaces=["other"])),
            [node("n1"), pod("d", labels=DB, on="n1")],
            "n1",
            id="apart from another namespace's",
        ),
        pytest.param(
            {"claims": ["data"]},
            [node("n1")],
            '0/1 nodes are available: persistentvolumeclaim "data" not found.',
            id="no claim",
        ),
        pytest.param(
            {"claims": ["data"]},
            [node("n1"), claim()],
            "0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims.",
            id="unbound",
        ),
        pytest.param(
            {"claims": ["data"]},
            [node("n1"), node("n2"), claim(volumeName="v", status={"phase": "Bound"}), volume("v", on="n2")],
            "n2",
            id="where the volume is",
        ),
        pytest.param(
            {"claims": ["data"]},
            [node("n1"), claim(volumeName="v", status={"phase": "Bound"}), volume("v", on="n2")],
            "0/1 nodes are available: 1 node(s) had volume node affinity conflict.",
            id="volume out of reach",
        ),
        pytest.param(
            {"claims": ["data"]},
            [
                node("n1"),
                claim(storageClassName="local"),
                storage_class("local", waits=True, provisioner="kubernetes.io/no-provisioner"),
            ],
            "0/1 nodes are available: 1 node(s) didn't find available persistent volumes to bind.",
            id="no local volume",
        ),
    ],
)
def test_a_pod_gets_a_node_or_hears_why_not(asked: Tree, there: list[Tree], outcome: str) -> None:
    assert placed(pod("p", **asked), *there) == outcome


SPREAD: Tree = {
    "topologySpreadConstraints": [
        {
            "maxSkew": 1,
            "topologyKey": ZONE,
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": DB},
        }
    ]
}


def test_a_spread_is_kept_even() -> None:
    nodes = [node("n1", labels={ZONE: "a"}), node("n2", labels={ZONE: "b"}, unschedulable=True)]
    assert placed(pod("p", labels=DB, **SPREAD), *nodes) == "n1"
    assert placed(pod("p", labels=DB, **SPREAD), *nodes, pod("d", labels=DB, on="n1")) == (
        "0/2 nodes are available: 1 node(s) didn't match pod topology spread constraints, "
        "1 node(s) were unschedulable."
    )
    assert "missing required label" in placed(pod("p", labels=DB, **SPREAD), node("n3"))


def test_init_containers_count_where_they_need_more_and_sidecars_with_the_rest() -> None:
    def asks(cpu: str, **more: str) -> Tree:
        return {"name": "c", "resources": {"requests": {"cpu": cpu}}, **more}

    spec: Tree = {
        "containers": [asks("1")],
        "initContainers": [asks("1", restartPolicy="Always"), asks("3")],
        "overhead": {"cpu": "500m"},
    }
    assert placed(pod("p", **spec), node("n1", cpu="4.5")) == "n1"
    assert placed(pod("p", **spec), node("n1", cpu="4.4")).endswith("1 Insufficient cpu.")
    spec["initContainers"] = [asks("1", restartPolicy="Always"), asks("1")]
    assert placed(pod("p", **spec), node("n1", cpu="2.5")) == "n1"


def test_who_can_not_be_placed_is_told_once_in_a_condition_and_an_event() -> None:
    stuck, status = pod("p", cpu="9"), [node("n1"), node("n2", taints=[TAINT])]
    first = seen(scheduling, stuck, *status)
    told = "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint {dedicated: db}."
    assert [type(one) for one in first] == [SetStatus, RecordEvent, Wait]
    assert isinstance(first[0], SetStatus)
    assert isinstance(first[1], RecordEvent)
    assert (first[1].event, first[1].because, first[1].warning) == ("FailedScheduling", told, True)
    (condition,) = first[0].status["conditions"]
    assert (condition["type"], condition["status"], condition["reason"], condition["message"]) == (
        "PodScheduled",
        "False",
        "Unschedulable",
        told,
    )
    again = seen(scheduling, {**stuck, "status": first[0].status}, *status)
    assert [type(one) for one in again] == [Wait]


def troubled(name: str, kind: str, status: str, message: str, key: str) -> Tree:
    """A node with a condition, and the taint that follows from it."""
    found = node(name, taints=[{"key": f"node.kubernetes.io/{key}", "effect": "NoSchedule"}])
    found["status"]["conditions"] = [{"type": kind, "status": status, "message": message}]
    return found


def test_a_node_that_is_not_ready_is_named_with_what_it_says_of_itself() -> None:
    intents = seen(
        scheduling,
        pod("p"),
        troubled("n1", "Ready", "False", "volumes stopped: OSError: no space", "not-ready"),
        troubled("n2", "Ready", "Unknown", "The node stopped reporting its status.", "unreachable"),
        troubled("n3", "DiskPressure", "True", "kubelet has disk pressure", "disk-pressure"),
    )
    (wait,) = (intent for intent in intents if isinstance(intent, Wait))
    assert wait.remedy == (
        "node n1 has to become ready: volumes stopped: OSError: no space; "
        "node n2 has to become ready: The node stopped reporting its status.; "
        "node n3 has to be rid of its DiskPressure: kubelet has disk pressure"
    )


@pytest.mark.parametrize(
    "spec", [{"on": "n9"}, {"schedulerName": "mine"}], ids=["bound already", "another scheduler's"]
)
def test_pods_that_are_not_ours_to_place_are_left_alone(spec: Tree) -> None:
    assert seen(scheduling, pod("p", **spec), node("n1")) == []


def test_a_gate_holds_a_pod_back() -> None:
    (wait,) = seen(scheduling, pod("p", schedulingGates=[{"name": "quota"}]), node("n1"))
    assert isinstance(wait, Wait)
    assert wait.reason == "SchedulingGated"
    assert "quota" in wait.because


def test_a_field_that_can_not_be_understood_is_told() -> None:
    assert "Maybe" in placed(pod("p", **on_nodes(rule("x", "Maybe"))), node("n1"))


def test_a_claim_that_waits_for_its_pod_is_told_the_node_which_keeps_the_place() -> None:
    waiting = claim(storageClassName="slow")
    classes = storage_class("slow", waits=True)
    asked = pod("p", cpu="3", claims=["data"])
    intents = seen(scheduling, asked, node("n1"), waiting, classes)
    assert [type(one) for one in intents] == [SetStatus, PatchObject, Wait]
    noted, told, _ = intents
    assert isinstance(noted, SetStatus)
    assert isinstance(told, PatchObject)
    assert told.fields == {"metadata": {"annotations": {"volume.kubernetes.io/selected-node": "n1"}}}

    waiting["metadata"] |= told.fields["metadata"]
    asked["status"] = noted.status
    assert placed(pod("q", cpu="3"), node("n1"), asked, waiting, classes).endswith("1 Insufficient cpu.")
    binding = {**waiting, "spec": {**waiting["spec"], "volumeName": "v"}}
    (wait,) = seen(scheduling, asked, node("n1"), binding, classes, volume("v", on="n1"))
    assert isinstance(wait, Wait)
    assert wait.reason == "WaitingForVolumes"
    bound = {**binding, "status": {"phase": "Bound"}}
    assert placed(asked, node("n1"), bound, classes, volume("v", on="n1")) == "n1"


def test_a_claim_that_is_yet_to_get_the_default_class_is_nothing_to_warn_of() -> None:
    default = storage_class("slow", waits=True)
    default["metadata"]["annotations"] = {"storageclass.kubernetes.io/is-default-class": "true"}
    intents = seen(scheduling, pod("p", claims=["data"]), node("n1"), claim(), default)
    assert [type(one) for one in intents] == [SetStatus, PatchObject, Wait]
    emptied = claim(storageClassName="")
    assert "unbound immediate" in placed(pod("p", claims=["data"]), node("n1"), emptied, default)


def test_a_claim_that_can_not_be_provisioned_is_told_on_the_pod_with_its_reason() -> None:
    failed = claim(storageClassName="slow")
    failed["metadata"]["annotations"] = {"volume.kubernetes.io/selected-node": "n1"}
    failed["status"] = {
        "phase": "Pending",
        "conditions": [
            {
                "type": "pilothouse.io/Provisioned",
                "status": "False",
                "reason": "ProvisioningFailed",
                "message": "node n1: the disk is full",
            }
        ],
    }
    asked, around = pod("p", claims=["data"]), [node("n1"), failed, storage_class("slow", waits=True)]
    noted, told, wait = seen(scheduling, asked, *around)
    why = 'persistentvolumeclaim "data" can\'t be provisioned: node n1: the disk is full'
    assert isinstance(noted, SetStatus)
    (condition,) = noted.status["conditions"]
    assert (condition["status"], condition["reason"], condition["message"]) == (
        "False",
        "WaitingForVolumes",
        why,
    )
    assert isinstance(told, RecordEvent)
    assert (told.event, told.because, told.warning) == ("FailedScheduling", why, True)
    assert isinstance(wait, Wait)
    assert "kubectl describe pvc data -n " in wait.remedy
    again = seen(scheduling, {**asked, "status": noted.status}, *around)
    assert [type(one) for one in again] == [Wait]
