"""Who may do what: the table, as it should be.

    python -m tests.security.matrix > docs/access-matrix.md

``ALLOWED`` says for each identity which verbs it has on which resources, everything else is refused. It is written by hand and
compared with what the server answers, cell by cell, in ``test_the_matrix_holds``. A resource is asked about as it concerns
the cluster ``demo`` and the node ``n1`` (see ``OBJECTS``): so one pilot and one node are at home, and the others are not.

A verb with a star is had with a selector only, which confines the request to what is in scope.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pilothouse.api.registry import resources

VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")
SELECTING = ("list", "watch", "deletecollection")
READ = "get list watch"
WRITE = "create update patch delete deletecollection"
FIND = "get list* watch*"

NAV, K0S, OPEN, OWN = (
    "navigator.jetstack.io",
    "autopilot.k0sproject.io",
    "autopilot.libopenstorage.org",
    "pilothouse.io",
)
RBAC, COORD, EVENTS = "rbac.authorization.k8s.io", "coordination.k8s.io", "events.k8s.io"
ACCESS, WHO, CERTS = "authorization.k8s.io", "authentication.k8s.io", "certificates.k8s.io"
STORAGE = "storage.k8s.io"

IDENTITIES = {
    "admin": "a person with the role `admin` in the namespace",
    "edit": "a person with the role `edit` in the namespace",
    "view": "a person with the role `view` in the namespace",
    "pilot": "the pilot of the cluster in question",
    "other pilot": "a pilot of another cluster in the same namespace",
    "node": "the node that the pod in question runs on",
    "other node": "another node",
    "account": "a service account without roles",
    "nobody": "an anonymous request",
}

OBJECTS = {
    f"pilots.{NAV}": "es-demo-0",
    f"elasticsearchclusters.{NAV}": "demo",
    f"leases.{COORD}": "pilot-es-demo-0",
    f"controlnodes.{K0S}": "n1",
    f"plans.{K0S}": "autopilot",
    f"storagepools.{OWN}": "n1-default",
    "namespaces": "shop",
    "nodes": "n1",
    "pods": "es-demo-0",
    "secrets": "demo-password",
    "configmaps": "demo-config",
    "serviceaccounts": "es-demo",
    "persistentvolumeclaims": "data-es-demo-0",
    "persistentvolumes": "pv-es-demo-0",
}
"""The object that a resource is asked about; of what is not here, one that is nobody's."""

_SEEN = (
    "configmaps endpoints persistentvolumeclaims persistentvolumeclaims/status pods pods/status serviceaccounts services "
    "services/status events "
    "endpointslices.discovery.k8s.io "
    "controllerrevisions.apps statefulsets.apps statefulsets.apps/status statefulsets.apps/scale "
    "deployments.apps deployments.apps/status deployments.apps/scale replicasets.apps replicasets.apps/status "
    "replicasets.apps/scale daemonsets.apps daemonsets.apps/status jobs.batch jobs.batch/status cronjobs.batch "
    "cronjobs.batch/status "
    "poddisruptionbudgets.policy poddisruptionbudgets.policy/status "
    f"elasticsearchclusters.{NAV} cassandraclusters.{NAV} pilots.{NAV} "
    f"elasticsearchclusters.{NAV}/status cassandraclusters.{NAV}/status pilots.{NAV}/status "
    f"autopilotruleobjects.{OPEN} actionapprovals.{OPEN} applicationactions.{OPEN} "
    f"autopilotruleobjects.{OPEN}/status actionapprovals.{OPEN}/status applicationactions.{OPEN}/status "
    f"decisions.{OWN} questions.{OWN} questions.{OWN}/status"
)
_EDITED = (
    "configmaps events persistentvolumeclaims pods secrets serviceaccounts services "
    f"statefulsets.apps poddisruptionbudgets.policy leases.{COORD} "
    "deployments.apps replicasets.apps daemonsets.apps jobs.batch cronjobs.batch "
    f"elasticsearchclusters.{NAV} cassandraclusters.{NAV} pilots.{NAV}"
)
_ABOUT_ONESELF = (
    "create",
    f"selfsubjectaccessreviews.{ACCESS} selfsubjectrulesreviews.{ACCESS} selfsubjectreviews.{WHO}",
)
_VIEW = (
    _ABOUT_ONESELF,
    (READ, _SEEN),
    ("get", "namespaces namespaces/status pods/log"),
    # About what is seen there; they exist for a minute.
    ("create delete", f"questions.{OWN}"),
)
_EDIT = (
    *_VIEW,
    (READ, f"secrets leases.{COORD}"),
    (WRITE, _EDITED),
    # Deciding one needs the verb approve on its rule.
    ("update patch delete deletecollection", f"actionapprovals.{OPEN}"),
    ("update patch", "statefulsets.apps/scale deployments.apps/scale replicasets.apps/scale"),
    ("create", "pods/eviction serviceaccounts/token"),
    ("create get", "pods/exec pods/attach"),
)
_EVERY_PILOT = (
    _ABOUT_ONESELF,
    ("create update patch", f"events events.{EVENTS}"),
    ("create", f"leases.{COORD}"),
)
_CONFINED = ("list* watch*", f"pilots.{NAV} secrets configmaps leases.{COORD}")
_EVERY_NODE = (
    _ABOUT_ONESELF,
    (READ, "nodes services endpoints endpointslices.discovery.k8s.io"),
    (READ, "persistentvolumeclaims persistentvolumes"),
    (READ, f"storageclasses.{STORAGE} volumeattributesclasses.{STORAGE}"),
    ("create", "persistentvolumes"),
    ("create update patch", f"events events.{EVENTS}"),
    ("create", f"tokenreviews.{WHO} subjectaccessreviews.{ACCESS} localsubjectaccessreviews.{ACCESS}"),
    ("create", f"certificatesigningrequests.{CERTS} nodes"),
    ("list* watch*", "pods"),
    ("get", f"plans.{K0S}"),
    ("create list* watch*", f"storagepools.{OWN}"),
)

ALLOWED: dict[str, tuple[tuple[str, str], ...]] = {
    "admin": (
        *_EDIT,
        (READ, f"roles.{RBAC} rolebindings.{RBAC}"),
        (WRITE, f"roles.{RBAC} rolebindings.{RBAC}"),
        ("create", f"localsubjectaccessreviews.{ACCESS}"),
    ),
    "edit": _EDIT,
    "view": _VIEW,
    "pilot": (
        *_EVERY_PILOT,
        _CONFINED,
        ("get", f"pilots.{NAV} secrets configmaps leases.{COORD}"),
        (FIND, f"elasticsearchclusters.{NAV} pods"),
        ("update patch", f"leases.{COORD}"),
        ("get update patch", f"pilots.{NAV}/status"),
    ),
    "other pilot": (*_EVERY_PILOT, _CONFINED),
    "node": (
        *_EVERY_NODE,
        (FIND, "pods secrets"),
        ("get", "serviceaccounts"),
        ("update patch", "nodes"),
        ("update patch", "nodes/status pods/status persistentvolumeclaims/status"),
        (f"{FIND} update patch", f"controlnodes.{K0S}"),
        ("update patch", f"controlnodes.{K0S}/status"),
        ("get update patch delete", f"storagepools.{OWN}"),
        ("update patch", f"storagepools.{OWN}/status"),
        ("delete", "pods"),
        ("create", "pods/eviction serviceaccounts/token"),
    ),
    "other node": _EVERY_NODE,
    "account": (_ABOUT_ONESELF,),
    "nobody": (),
}
"""Of a pilot's and a node's writes, what they contain is judged besides: see docs/security.md."""


@dataclass(frozen=True)
class Row:
    """A resource or subresource that is served."""

    group: str
    plural: str
    subresource: str
    namespaced: bool
    verbs: tuple[str, ...]

    @property
    def resource(self) -> str:
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def title(self) -> str:
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource

    @property
    def name(self) -> str:
        return OBJECTS.get(self.resource, "nobodys")


def rows() -> Iterator[Row]:
    """Everything that is served of itself, in the order of discovery."""
    for resource in sorted(resources(), key=lambda each: (each.group, each.plural)):
        kind = resource.kinds[0]
        yield Row(kind.group, kind.plural, "", kind.namespaced, kind.verbs)
        verbs = {each.name: each.verbs for each in kind.subresources}
        if kind.status:
            verbs["status"] = ("get", "update", "patch")
        if kind.scale is not None:
            verbs["scale"] = ("get", "update", "patch")
        for name in sorted(verbs):
            yield Row(kind.group, kind.plural, name, kind.namespaced, verbs[name])


def allowed(identity: str, row: Row) -> frozenset[str]:
    """What an identity may do to a resource: verbs, with a star where a selector is needed."""
    granted = (verbs.split() for verbs, where in ALLOWED[identity] if row.title in where.split())
    found = {verb for verbs in granted for verb in verbs}
    served = {verb for verb in found if verb.rstrip("*") in row.verbs}
    return frozenset(verb for verb in served if verb.rstrip("*") == verb or verb.rstrip("*") not in served)


def render() -> str:
    """The page."""
    lines = [
        "# Access matrix",
        "",
        "Every verb on every built-in resource, for nine identities. Generated from the table in",
        "`tests/security/matrix.py`, which a test compares with the server's answers, cell by cell:",
        "`python -m tests.security.matrix > docs/access-matrix.md`. Everything else is refused.",
        "",
        *(f"* **{name}**: {text}" for name, text in IDENTITIES.items()),
        "",
        "Letters: **g**et, **l**ist, **w**atch, **c**reate, **u**pdate, **p**atch, **d**elete, delete**C**ollection. A star: only with a",
        "selector that restricts it to the scope (for a pilot its cluster's label, for a node `spec.nodeName`, for either",
        "`metadata.name` of an object that is in scope). A namespaced resource is asked about in the namespace where the person has",
        "the role and the pilot its pod; of pods, secrets and the like it is the one that the pilot and the node have to do with.",
        "What a pilot or node writes is also checked by its content ([security](security.md)), and so are roles and bindings",
        "([escalation](authorization.md#privilege-escalation)).",
        "",
        f"| resource | {' | '.join(IDENTITIES)} |",
        f"|---|{'---|' * len(IDENTITIES)}",
    ]
    for row in rows():
        cells = (_letters(allowed(identity, row)) for identity in IDENTITIES)
        lines.append(f"| `{row.title}` | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _letters(verbs: frozenset[str]) -> str:
    letters = []
    for verb in VERBS:
        letter = "C" if verb == "deletecollection" else verb[0]
        if verb in verbs:
            letters.append(letter)
        elif f"{verb}*" in verbs:
            letters.append(f"{letter}\\*")
    return "".join(letters)


if __name__ == "__main__":
    print(render(), end="")
