"""What a user of kubectl sees of sets and budgets, as data: a manifest, and what is then said and shown.

    Case("a set shrinks", [stateful_set()], [Run("scale sts web --replicas=1"), Until(PODS, "web-0")])

Nothing in here knows whose API server or whose controllers these are: Kubernetes' own have to pass as ours do.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from tests.kit.workloads import disruption_budget, rolling, stateful_set


@dataclass(frozen=True)
class Run:
    """A command that has to succeed and to print all of these; or, with ``fails``, to fail and say them."""

    command: str
    says: tuple[str, ...] = ()
    fails: bool = False


@dataclass(frozen=True)
class Until:
    """A command that has to print this in the end."""

    command: str
    output: str


@dataclass(frozen=True)
class Keep:
    """Remember what a command prints."""

    command: str


@dataclass(frozen=True)
class Same:
    """A command that has to print in the end what it printed when it was kept."""

    command: str


Step = Run | Until | Keep | Same


@dataclass(frozen=True)
class Case:
    name: str
    manifests: list[dict[str, Any]]
    steps: list[Step] = field(default_factory=list)

    def __str__(self) -> str:
        return self.name.replace(" ", "-")


PODS: Final = "get pods -o jsonpath={.items[*].metadata.name}"
IMAGES: Final = "get pods -o jsonpath={.items[*].spec.containers[0].image}"
UIDS: Final = "get pods -o jsonpath={.items[*].metadata.uid}"
OWNERS: Final = "get pods -o jsonpath={.items[*].metadata.ownerReferences[*].name}"
CLAIMS: Final = "get pvc -o jsonpath={.items[*].metadata.name}"
REVISIONS: Final = "get controllerrevisions --sort-by=.revision -o jsonpath={.items[*].revision}"
DONE: Final = Run("rollout status sts web --timeout=50s", ("roll out complete: 3 new pods",))
UP: Final = Run("rollout status sts web --timeout=50s")
BUDGET: Final = (
    "get pdb web -o jsonpath={.status.expectedPods}/{.status.desiredHealthy}/{.status.currentHealthy}"
    "/{.status.disruptionsAllowed}/{.status.conditions[0].reason}"
)

EVICT: Final = "create --raw /api/v1/namespaces/NAMESPACE/pods/web-0/eviction -f EVICTION"
"""A command names the files MANIFESTS (of the case) and EVICTION (of web-0), and its own NAMESPACE, so."""


def update(image: str) -> Run:
    return Run(f"set image sts/web app={image}")


def status(field: str) -> str:
    return f"get sts web -o jsonpath={{.status.{field}}}"


def retention(when_deleted: str, when_scaled: str) -> dict[str, str]:
    return {"whenDeleted": when_deleted, "whenScaled": when_scaled}


CASES: Final = [
    Case(
        "a set comes up",
        [stateful_set(claims=["data"])],
        [
            UP,
            Until(PODS, "web-0 web-1 web-2"),
            Until("get sts web -o jsonpath={.status.readyReplicas}/{.status.availableReplicas}", "3/3"),
            Until(CLAIMS, "data-web-0 data-web-1 data-web-2"),
            Run(
                "get pod web-1 -o jsonpath={.spec.hostname}/{.spec.subdomain}/{.metadata.generateName}"
                "/{.metadata.labels.apps\\.kubernetes\\.io/pod-index}"
                "/{.metadata.labels.statefulset\\.kubernetes\\.io/pod-name}",
                ("web-1/web/web-/1/web-1",),
            ),
            Run("get pvc data-web-1 -o jsonpath={.metadata.labels.app}", ("web",)),
        ],
    ),
    Case(
        "an update can be followed, told and undone",
        [stateful_set()],
        [
            UP,
            update("app:2"),
            DONE,
            Until(IMAGES, "app:2 app:2 app:2"),
            Until(REVISIONS, "1 2"),
            Run("rollout history sts web", ("1", "2")),
            Run("rollout history sts web --revision=1", ("app:1",)),
            Run("rollout undo sts web", ("rolled back",)),
            DONE,
            Until(IMAGES, "app:1 app:1 app:1"),
            Until(REVISIONS, "2 3"),
            Run("rollout undo sts web --to-revision=2", ("rolled back",)),
            DONE,
            Until(IMAGES, "app:2 app:2 app:2"),
            Run("rollout undo sts web --to-revision=4", ("skipped rollback",)),
            Run("rollout restart sts web"),
            DONE,
            Until(REVISIONS, "3 4 5"),
        ],
    ),
    Case(
        "a partition keeps pods back",
        [stateful_set(updateStrategy=rolling(partition=2))],
        [
            Until(status("readyReplicas"), "3"),
            update("app:2"),
            Run("rollout status sts web --timeout=50s", ("partitioned roll out complete: 1 new pods",)),
            Until(IMAGES, "app:1 app:1 app:2"),
            Run("delete pod web-0"),
            Until(status("readyReplicas"), "3"),
            Until(IMAGES, "app:1 app:1 app:2"),
            Run(
                'patch sts web --type=merge -p {"spec":{"updateStrategy":{"rollingUpdate":{"partition":0}}}}'
            ),
            DONE,
            Until(IMAGES, "app:2 app:2 app:2"),
        ],
    ),
    Case(
        "on delete the user updates",
        [stateful_set(updateStrategy={"type": "OnDelete"})],
        [
            Until(status("readyReplicas"), "3"),
            update("app:2"),
            Until(status("observedGeneration"), "2"),
            Run("delete pod web-1"),
            Until(IMAGES, "app:1 app:2 app:1"),
            Run(
                "rollout status sts web", ("rollout status is only available for RollingUpdate",), fails=True
            ),
        ],
    ),
    Case(
        "a broken update stops and needs a hand after it is undone",
        [stateful_set()],
        [
            UP,
            update("broken"),
            Until(IMAGES, "app:1 app:1 broken"),
            Run("rollout status sts web --timeout=2s", fails=True),
            Run("rollout undo sts web", ("rolled back",)),
            Until(status("observedGeneration"), "3"),
            Until(IMAGES, "app:1 app:1 broken"),
            Run("delete pod web-2"),
            UP,
            Until(IMAGES, "app:1 app:1 app:1"),
        ],
    ),
    Case(
        "a parallel set replaces a broken pod by itself",
        [stateful_set(podManagementPolicy="Parallel")],
        [
            UP,
            update("broken"),
            Until(IMAGES, "app:1 app:1 broken"),
            Run("rollout undo sts web", ("rolled back",)),
            UP,
            Until(IMAGES, "app:1 app:1 app:1"),
        ],
    ),
    Case(
        "claims outlive pods that are scaled away",
        [stateful_set(claims=["data"])],
        [
            UP,
            Run("scale sts web --replicas=1"),
            Until(PODS, "web-0"),
            Until(CLAIMS, "data-web-0 data-web-1 data-web-2"),
            Until(status("replicas"), "1"),
            Run("scale sts web --replicas=2 --current-replicas=1"),
            Until(PODS, "web-0 web-1"),
        ],
    ),
    Case(
        "claims go with pods that are scaled away",
        [stateful_set(claims=["data"], persistentVolumeClaimRetentionPolicy=retention("Retain", "Delete"))],
        [
            UP,
            Run("scale sts web --replicas=1"),
            Until(PODS, "web-0"),
            Until(CLAIMS, "data-web-0"),
            Run("scale sts web --replicas=2"),
            Until(CLAIMS, "data-web-0 data-web-1"),
            Until(status("readyReplicas"), "2"),
        ],
    ),
    Case(
        "a set is deleted in the background and its claims stay",
        [stateful_set(claims=["data"])],
        [
            UP,
            Run("delete sts web --cascade=background"),
            Until(PODS, ""),
            Until(REVISIONS, ""),
            Until(CLAIMS, "data-web-0 data-web-1 data-web-2"),
        ],
    ),
    Case(
        "a set is deleted in the foreground and its claims go too",
        [stateful_set(claims=["data"], persistentVolumeClaimRetentionPolicy=retention("Delete", "Retain"))],
        [UP, Run("delete sts web --cascade=foreground"), Until(PODS, ""), Until(CLAIMS, "")],
    ),
    Case(
        "orphans stay and are adopted by the next set of that name",
        [stateful_set()],
        [
            UP,
            Keep(UIDS),
            Run("delete sts web --cascade=orphan"),
            Until(OWNERS, ""),
            Until(PODS, "web-0 web-1 web-2"),
            Run("apply -f MANIFESTS"),
            Until(OWNERS, "web web web"),
            UP,
            Same(UIDS),
            Until(REVISIONS, "1"),
        ],
    ),
    Case(
        "a pod that no longer fits is let go and stands in the way",
        [stateful_set(replicas=1)],
        [
            UP,
            Run("label pod web-0 app=other --overwrite"),
            Until(OWNERS, ""),
            Until(status("replicas"), "0"),
            Run("delete pod web-0"),
            Until(OWNERS, "web"),
            Until(status("readyReplicas"), "1"),
        ],
    ),
    Case(
        "ordinals begin where the spec says",
        [stateful_set(replicas=2, ordinals={"start": 3})],
        [
            UP,
            Until(PODS, "web-3 web-4"),
            Run('patch sts web --type=merge -p {"spec":{"ordinals":{"start":4}}}'),
            Until(PODS, "web-4 web-5"),
        ],
    ),
    Case(
        "a budget follows its pods",
        [stateful_set(), disruption_budget(maxUnavailable=1)],
        [
            UP,
            Until(BUDGET, "3/2/3/1/SufficientPods"),
            Run("scale sts web --replicas=2"),
            Until(PODS, "web-0 web-1"),
            Until(BUDGET, "2/1/2/1/SufficientPods"),
            Run('patch pdb web --type=merge -p {"spec":{"maxUnavailable":"0%"}}'),
            Until(BUDGET, "2/2/2/0/InsufficientPods"),
            Until("get pdb web -o jsonpath={.status.observedGeneration}", "2"),
        ],
    ),
    Case(
        "an eviction is held to the budget",
        [stateful_set(), disruption_budget(minAvailable=3)],
        [
            UP,
            Until(BUDGET, "3/3/3/0/InsufficientPods"),
            Keep(UIDS),
            Run(EVICT, ("disruption budget",), fails=True),
            Same(UIDS),
            Run('patch pdb web --type=merge -p {"spec":{"minAvailable":2}}'),
            Until(BUDGET, "3/2/3/1/SufficientPods"),
            Run(EVICT),
            Until(BUDGET, "3/2/3/1/SufficientPods"),
            UP,
        ],
    ),
    Case(
        "a namespace goes with all that is in it",
        [stateful_set(claims=["data"]), disruption_budget(maxUnavailable=1)],
        [
            UP,
            Run("delete namespace NAMESPACE --timeout=50s"),
            Run("get namespace NAMESPACE", ("not found",), fails=True),
            Until(PODS, ""),
            Until(CLAIMS, ""),
            Until("get sts,pdb,controllerrevisions,serviceaccounts,configmaps -o name", ""),
        ],
    ),
    Case(
        "a budget without pods allows nothing",
        [disruption_budget(minAvailable=1)],
        [Until(BUDGET, "0/1/0/0/InsufficientPods")],
    ),
]
