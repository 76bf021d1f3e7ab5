"""What a decision costs, warm and cold, and what that is of a GET.

    python -m bench.authorization

Everything runs in this process, without HTTP: the share of a GET shown is therefore an upper bound.
"""

from __future__ import annotations

import asyncio
import datetime
import itertools
import random
import statistics
import time
from collections.abc import Awaitable, Callable
from ipaddress import IPv4Network

from pilothouse.api.kubernetes.pod_fields import refused_fields
from pilothouse.api.registry import resources
from pilothouse.apiserver.authentication.authenticator import Authenticator
from pilothouse.apiserver.authentication.impersonation import impersonate
from pilothouse.apiserver.authorization.authorizer import Attributes, Chain, Masters
from pilothouse.apiserver.authorization.rbac.rbac_authorizer import RBACAuthorizer
from pilothouse.apiserver.authorization.restriction.identity import POD_NAME
from pilothouse.apiserver.authorization.restriction.node_claims import ControlPlaneNetwork, NodeClaims
from pilothouse.apiserver.authorization.restriction.restriction_authorizer import Restriction
from pilothouse.apiserver.discovery.catalog import KindCatalog
from pilothouse.apiserver.request_handler import RequestHandler
from pilothouse.apiserver.server.messages import Request, Response, User
from pilothouse.apiserver.storage import codec
from pilothouse.apiserver.storage.watch_cache import WatchCache
from pilothouse.base.clock import SystemClock
from pilothouse.base.uids import Uids
from pilothouse.pki.authority import Authority
from pilothouse.pki.jwt import SigningKey
from pilothouse.store.memory import MemoryStore

BINDINGS = 1000
ROUNDS, CALLS = 9, 20_000
API = "/apis/rbac.authorization.k8s.io/v1"
ADMIN = User("admin", groups=("system:masters", "system:authenticated"))
ALICE = User("alice", groups=("dev", "ops", "system:authenticated"))
HEADERS = {"Host": "h", "User-Agent": "bench", "Accept": "application/json", "Accept-Encoding": "gzip"}


LABEL = "navigator.jetstack.io/elasticsearch-cluster-name"
PODS = 500
PILOT = User(
    "system:serviceaccount:default:default",
    groups=("system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"),
    extra={POD_NAME: ("pod-7",)},
)
NODE = User("system:node:n7", groups=("system:nodes", "system:authenticated"))
SECRET = Attributes("get", "/p", "", "v1", "secrets", "", "default", "labelled")
SECRETS = Attributes("list", "/p", "", "v1", "secrets", "", "default", label_selector=f"{LABEL}=demo")
FOREIGN = Attributes("get", "/p", "", "v1", "secrets", "", "default", "nobodys")


async def main() -> None:
    store = MemoryStore()
    core = RequestHandler(
        store,
        resources(),
        authenticator=Authenticator(),
        clock=SystemClock(),
        random=random.Random(1),
        uids=Uids(),
        refusals=refused_fields,
        signing_key=SigningKey.generate(),
        authority=lambda: Authority.make("unused", datetime.datetime.now(datetime.UTC)),
    )
    async with core.running():
        await _fill(core)
        await _fill_fleet(core)
        cache = WatchCache(store, KindCatalog(resources()), SystemClock(), random.Random(1))
        rbac = RBACAuthorizer(cache)
        cache.listen(rbac)
        network = ControlPlaneNetwork(IPv4Network("127.96.0.0/16"), frozenset())
        restriction = Restriction(cache, NodeClaims(cache, network))
        following = asyncio.create_task(cache.run())
        await cache.filled()
        await _measure(core, rbac, restriction)
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)


async def _measure(core: RequestHandler, rbac: RBACAuthorizer, restriction: Restriction) -> None:
    chain = Chain([Masters(), restriction, rbac])
    names = itertools.cycle([f"pod-{number}" for number in range(1000)])
    warm = Attributes("get", "/p", "", "v1", "pods", "", "default", "a")
    strangers = map(str, itertools.count())
    request = Request("GET", "/api/v1/namespaces/default/configmaps/c", headers=HEADERS)
    rows = {
        "decision, warm, same object": _timed(lambda: chain.decide(ALICE, warm)),
        "decision, warm, attributes made anew": _timed(
            lambda: chain.decide(ALICE, Attributes("get", "/p", "", "v1", "pods", "", "default", next(names)))
        ),
        "decision, warm, refused": _timed(lambda: chain.decide(User("bob", groups=ALICE.groups), warm)),
        f"decision, cold, {BINDINGS} bindings": _timed(
            lambda: rbac.decide(User(next(strangers), groups=ALICE.groups), warm), calls=2000
        ),
        "decision, a pilot: a secret of its cluster": _timed(lambda: chain.decide(PILOT, SECRET)),
        "decision, a pilot: its cluster's secrets": _timed(lambda: chain.decide(PILOT, SECRETS)),
        "decision, a pilot: a secret of nobody": _timed(lambda: chain.decide(PILOT, FOREIGN)),
        "decision, a node: a secret of its pods": _timed(lambda: chain.decide(NODE, SECRET)),
        "decision, a node: a secret of nobody": _timed(lambda: chain.decide(NODE, FOREIGN)),
        "decision, system:masters": _timed(lambda: chain.decide(ADMIN, warm)),
        "looking for impersonation": _timed(lambda: impersonate(request, chain)),
        "GET, system:masters": await _timed_get(core, ADMIN),
        "GET, by a role": await _timed_get(core, ALICE),
    }
    for name, micros in rows.items():
        print(f"{name:42} {micros:8.2f} µs")


async def _fill(core: RequestHandler) -> None:
    """Many bindings of others, a few of Alice's, and an object to get."""
    pods = {"verbs": ["get"], "apiGroups": [""], "resources": ["pods", "configmaps"]}
    await _post(core, f"{API}/clusterroles", {"metadata": {"name": "reads"}, "rules": [pods]})
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "reads"}
    for number in range(BINDINGS):
        name = "alice" if number == BINDINGS // 2 else f"user-{number}"
        binding = {
            "metadata": {"name": f"b-{number}"},
            "roleRef": role,
            "subjects": [{"kind": "User", "name": name}],
        }
        await _post(core, f"{API}/namespaces/default/rolebindings", binding)
    await _post(
        core, "/api/v1/namespaces/default/configmaps", {"metadata": {"name": "c"}, "data": {"a": "b"}}
    )


async def _fill_fleet(core: RequestHandler) -> None:
    """Pods on some nodes, each with a Pilot, all of one cluster and with its secret."""
    labels = {LABEL: "demo"}
    for name, given in (("labelled", labels), ("nobodys", {})):
        await _post(core, "/api/v1/namespaces/default/secrets", {"metadata": {"name": name, "labels": given}})
    version = "navigator.jetstack.io/v1beta1"
    owner = {
        "apiVersion": version,
        "kind": "ElasticsearchCluster",
        "name": "demo",
        "uid": "1",
        "controller": True,
    }
    for number in range(PODS):
        metadata = {"name": f"pod-{number}", "labels": labels}
        spec = {
            "nodeName": f"n{number % 50}",
            "containers": [{"name": "main", "image": "x:1"}],
            "volumes": [{"name": "s", "secret": {"secretName": "labelled"}}],
        }
        await _post(core, "/api/v1/namespaces/default/pods", {"metadata": metadata, "spec": spec})
        pilot = {"apiVersion": version, "kind": "Pilot", "spec": {}}
        pilot["metadata"] = {**metadata, "ownerReferences": [owner]}
        await _post(core, f"/apis/{version}/namespaces/default/pilots", pilot)


async def _post(core: RequestHandler, path: str, body: object) -> None:
    headers = {"Content-Type": "application/json"}
    answer = await core.answer(Request("POST", path, headers=headers, body=codec.dump(body), user=ADMIN))
    if not isinstance(answer, Response) or answer.status != 201:
        raise SystemExit(f"POST {path}: {answer}")


async def _timed_get(core: RequestHandler, user: User) -> float:
    async def get() -> None:
        path = "/api/v1/namespaces/default/configmaps/c"
        answer = await core.answer(Request("GET", path, headers=HEADERS, user=user))
        if answer.status != 200:
            raise SystemExit(f"GET {path} as {user.name}: {answer}")

    return await _timed_await(get)


def _timed(call: Callable[[], object], calls: int = CALLS) -> float:
    """Microseconds a call takes: the best of some rounds, which other processes disturbed least."""
    rounds = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        for _ in range(calls):
            call()
        rounds.append((time.perf_counter() - start) / calls * 1e6)
    return min(rounds)


async def _timed_await(call: Callable[[], Awaitable[None]], calls: int = 3000) -> float:
    rounds = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        for _ in range(calls):
            await call()
        rounds.append((time.perf_counter() - start) / calls * 1e6)
    return statistics.quantiles(rounds, n=10)[0]


if __name__ == "__main__":
    asyncio.run(main())
