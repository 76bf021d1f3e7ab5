"""A small installation with clusters, their pilots and the nodes that these run on, over a core in memory.

    with SampleInstallation() as shop:
        pilot = shop.pilot("shop", "es-demo-0")               # the user behind the token of that pod
        shop.send("GET", shop.at("secrets", "demo-password"), user=pilot)

Namespace ``shop`` has the Elasticsearch clusters ``demo`` and ``logs``, namespace ``bank`` another ``demo``. Each has two
instances, ``es-<cluster>-0`` on node ``n1`` and ``-1`` on ``n2``: pod, Pilot, service account ``es-<cluster>``, lease,
and with the cluster's label a secret, a config map. Besides there are a pod ``web`` on ``n1`` under an account of its own,
a pod ``early`` whose Pilot is not there yet, and a secret and a config map that are nobody's.
"""

from __future__ import annotations

from typing import Any

from tests.kit.core import Answered, CoreServer
from tests.kit.rbac_objects import bind, cluster_role, place, rule

from pilothouse.apiserver.server.messages import User

Json = dict[str, Any]

NAVIGATOR = "/apis/navigator.jetstack.io/v1beta1"
LEASES = "/apis/coordination.k8s.io/v1"
LABEL = "navigator.jetstack.io/elasticsearch-cluster-name"
_PREFIX = "navigator.jetstack.io/"
_GROUPS = {
    "pilots": NAVIGATOR,
    "elasticsearchclusters": NAVIGATOR,
    "leases": LEASES,
    "statefulsets": "/apis/apps/v1",
    "roles": "/apis/rbac.authorization.k8s.io/v1",
    "rolebindings": "/apis/rbac.authorization.k8s.io/v1",
}
IMAGE: Json = {"repository": "something", "tag": "1"}
_VERSION = NAVIGATOR.removeprefix("/apis/")
_CLUSTER: Json = {"apiVersion": _VERSION, "kind": "ElasticsearchCluster"}
PILOT: Json = {"apiVersion": _VERSION, "kind": "Pilot", "spec": {}}
POOL: Json = {"name": "mixed", "replicas": 3, "roles": ["master", "data"], "persistence": {"size": "1Gi"}}


class SampleInstallation(CoreServer):
    """A core with all of this in it."""

    def __init__(self) -> None:
        super().__init__()
        for node in ("n1", "n2"):
            self.make("", "nodes", node)
        for namespace, clusters in (("shop", ("demo", "logs")), ("bank", ("demo",))):
            self.make("", "namespaces", namespace)
            self.make(namespace, "serviceaccounts", "default")
            for cluster in clusters:
                self._cluster(namespace, cluster)
            for plural in ("secrets", "configmaps"):
                self.make(namespace, plural, "unrelated")
        self.make("shop", "serviceaccounts", "web")
        self.make("shop", "secrets", "web-password")
        self.pod("shop", "web", "n1", account="web", secret="web-password")
        self.pod("shop", "early", "n1", account="es-demo", labels={LABEL: "demo", f"{_PREFIX}has-pilot": ""})

    def at(self, plural: str, name: str = "", *, namespace: str = "shop", sub: str = "") -> str:
        """The path of an object or, without a name, of its collection."""
        base = _GROUPS.get(plural, "/api/v1")
        inside = f"/namespaces/{namespace}" if namespace else ""
        return "/".join(filter(None, [f"{base}{inside}", plural, name, sub]))

    def make(self, namespace: str, plural: str, name: str, obj: Json | None = None, **metadata: Any) -> Json:
        """Create an object as the administrator."""
        body = {**(obj or {}), "metadata": {"name": name, **metadata}}
        return dict(self.send("POST", self.at(plural, namespace=namespace), body).expect(201))

    def read(self, plural: str, name: str, *, namespace: str = "shop") -> Json:
        """An object as the administrator sees it."""
        return dict(self.send("GET", self.at(plural, name, namespace=namespace)).expect(200))

    def pod(
        self,
        namespace: str,
        name: str,
        node: str = "",
        *,
        account: str = "default",
        secret: str = "",
        labels: Json | None = None,
        **spec: Any,
    ) -> Json:
        """A pod, bound to a node if there is one, with a secret as a volume if there is one."""
        spec = {"serviceAccountName": account, "containers": [{"name": "main", "image": "x:1"}], **spec}
        if secret:
            spec["volumes"] = [{"name": "secret", "secret": {"secretName": secret}}]
        made = self.make(namespace, "pods", name, {"spec": spec}, labels=labels or {})
        if node:
            binding = {"metadata": {"name": name}, "target": {"kind": "Node", "name": node}}
            self.send("POST", self.at("pods", name, namespace=namespace, sub="binding"), binding).expect(201)
        return made

    def token(self, namespace: str, account: str, pod: str = "", **spec: Any) -> str:
        """A service account's token, bound to a pod if there is one."""
        if pod:
            spec["boundObjectRef"] = {"kind": "Pod", "apiVersion": "v1", "name": pod}
        path = self.at("serviceaccounts", account, namespace=namespace, sub="token")
        made: Json = self.send("POST", path, {"spec": spec}).expect(201)
        return str(made["status"]["token"])

    def pilot(self, namespace: str = "shop", pod: str = "es-demo-0") -> User:
        """The user behind the token of a pilot's pod."""
        account = self.read("pods", pod, namespace=namespace)["spec"]["serviceAccountName"]
        return self.bearer(self.token(namespace, account, pod))

    def grant_everything(self, user: User) -> None:
        """Give a user every right that roles can give, so that what is left is the restriction."""
        name = user.name.replace(":", "-")
        anything = cluster_role(f"everything-{name}", rule("*", "*", "*"))
        anything["rules"] = [
            {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]},
            {"verbs": ["*"], "nonResourceURLs": ["*"]},
        ]
        bound = bind("", f"everything-{name}", f"ClusterRole/everything-{name}", f"User/{user.name}")
        for obj in (anything, bound):
            self.send("POST", place(obj), obj).expect(201)

    def refused(self, answer: Answered) -> str:
        """The message of a 403, and of nothing else."""
        assert answer.status == 403, f"expected 403, got {answer.status}: {answer.body[:500]!r}"
        return answer.message

    def _cluster(self, namespace: str, cluster: str) -> None:
        spec = {"version": "8.17.0", "pilotImage": IMAGE, "image": IMAGE, "nodePools": [POOL]}
        made = self.make(namespace, "elasticsearchclusters", cluster, {**_CLUSTER, "spec": spec})
        owner = {
            "apiVersion": made["apiVersion"],
            "kind": "ElasticsearchCluster",
            "name": cluster,
            "uid": made["metadata"]["uid"],
            "controller": True,
        }
        labels = {LABEL: cluster}
        self.make(namespace, "serviceaccounts", f"es-{cluster}", labels=labels)
        self.make(namespace, "secrets", f"{cluster}-password", {"stringData": {"p": "s3cret"}}, labels=labels)
        self.make(namespace, "configmaps", f"{cluster}-config", {"data": {"a": "b"}}, labels=labels)
        for index, node in enumerate(("n1", "n2")):
            name = f"es-{cluster}-{index}"
            self.pod(
                namespace,
                name,
                node,
                account=f"es-{cluster}",
                secret=f"{cluster}-password",
                labels={**labels, f"{_PREFIX}has-pilot": ""},
            )
            self.make(namespace, "pilots", name, PILOT, labels=labels, ownerReferences=[owner])
            self.make(namespace, "leases", f"pilot-{name}", {"spec": {"holderIdentity": name}})


def node(name: str) -> User:
    """A node as its certificate names it."""
    return User(f"system:node:{name}", groups=("system:nodes", "system:authenticated"))
