"""The embedded provider scrapes nodes and pods; what a page says of others is dropped and counted."""

from __future__ import annotations

import asyncio
import tracemalloc
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.rules.metrics_server import Flood, MetricsServer, Page, answer, endless, never

from pilothouse.api.objects import Object
from pilothouse.base.clock import SystemClock
from pilothouse.client.transport import (
    BadAnswer,
    ClientRequest,
    ClientResponse,
    NotSent,
    ResponseStreamReader,
)
from pilothouse.rules.providers import embedded as module
from pilothouse.rules.providers import scrape_targets
from pilothouse.rules.providers.embedded import EmbeddedProvider
from pilothouse.rules.providers.scrape_targets import ScrapeTargets
from pilothouse.rules.samples import Answer, QueryFailure
from pilothouse.rules.series_store import SeriesStore


class NodePages:
    """The API server, as far as it serves the pages of nodes."""

    def __init__(self, pages: Mapping[str, str]) -> None:
        self.pages = dict(pages)
        self.asked: list[str] = []

    async def request(self, call: ClientRequest) -> ClientResponse:
        self.asked.append(call.path)
        name = call.path.removeprefix("/api/v1/nodes/").removesuffix("/proxy/metrics")
        page = self.pages.get(name)
        if page is None:
            raise NotSent("no route to host")
        if page == "hangs":
            await asyncio.Event().wait()
        if len(page) > call.longest:
            raise BadAnswer("too long")
        return ClientResponse(200, {}, page.encode())

    def stream(self, call: ClientRequest) -> AbstractAsyncContextManager[ResponseStreamReader]:
        raise NotImplementedError


def node(name: str) -> Object:
    return Object.of({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "uid": name}})


def claim(name: str, namespace: str = "db", phase: str = "Bound", volume: str = "") -> Object:
    return Object.of(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": name, "namespace": namespace, "uid": f"{namespace}-{name}"},
            "spec": {"volumeName": volume or f"pv-{name}"},
            "status": {"phase": phase},
        }
    )


def pod(name: str, on: str, *claims: str, port: int = 0, namespace: str = "db") -> Object:
    annotations = {"prometheus.io/scrape": "true", "prometheus.io/port": str(port)} if port else {}
    return Object.of(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": namespace, "uid": name, "annotations": annotations},
            "spec": {
                "nodeName": on,
                "volumes": [{"name": each, "persistentVolumeClaim": {"claimName": each}} for each in claims],
            },
            "status": {"phase": "Running", "podIP": "127.0.0.1"},
        }
    )


def provider(
    pages: Mapping[str, str], pods: Sequence[Object] = (), claims: Sequence[Object] = ()
) -> EmbeddedProvider:
    nodes = [node(name) for name in pages]
    targets = ScrapeTargets(lambda: nodes, lambda: pods, lambda: claims)
    return EmbeddedProvider(NodePages(pages), targets, SystemClock())


def by_label(answer: Answer, name: str) -> dict[str, float]:
    assert not isinstance(answer, QueryFailure), answer
    return {sample.labels.get(name, ""): sample.value for sample in answer}


async def ask(provider: EmbeddedProvider, expression: str) -> Answer:
    return (await provider.query([expression], SystemClock().now()))[expression]


USED = 'kubelet_volume_stats_used_bytes{{namespace="{}",persistentvolumeclaim="{}"}} {}\n'


async def test_a_node_speaks_of_its_own_pods_and_claims() -> None:
    page = USED.format("db", "a", 50) + USED.format("db", "b", 60) + USED.format("web", "a", 70)
    page += 'kubelet_volume_stats_used_bytes{volumename="pv-b"} 1\n'
    page += 'kubelet_volume_stats_used_bytes{namespace="db",pod="q"} 1\n'
    page += 'kubelet_volume_stats_used_bytes{node="n2"} 1\n'
    page += 'kubelet_volume_stats_used_bytes{exported_namespace="db",persistentvolumeclaim="b"} 1\n'
    asked = provider(
        {"n1": page, "n2": USED.format("db", "b", 90)},
        [pod("p", "n1", "a"), pod("q", "n2", "b")],
        [claim("a"), claim("b"), claim("a", "web", volume="pv-web")],
    )
    answer = await ask(asked, "kubelet_volume_stats_used_bytes")
    assert by_label(answer, "persistentvolumeclaim") == {"a": 50, "b": 90}
    assert by_label(answer, "node") == {"n1": 50, "n2": 90}
    assert asked.counts.foreign_series == 6


async def test_a_pods_page_that_speaks_of_anothers_claim_moves_nothing() -> None:
    lies = USED.format("db", "b", 99) + USED.format("web", "a", 99)
    lies += 'kubelet_volume_stats_used_bytes{volumename="pv-b"} 99\n'
    lies += 'kubelet_volume_stats_used_bytes{namespace="db",pod="q",persistentvolumeclaim="a"} 99\n'
    lies += 'kubelet_volume_stats_used_bytes{node="n2",persistentvolumeclaim="a"} 99\n'
    lies += 'kubelet_volume_stats_used_bytes{exported_namespace="web",persistentvolumeclaim="a"} 99\n'
    async with MetricsServer(
        {"/metrics": (lies + 'kubelet_volume_stats_used_bytes{x="own"} 3\n').encode()}
    ) as server:
        asked = provider(
            {"n1": "", "n2": USED.format("db", "b", 10)},
            [pod("p", "n1", "a", port=server.port), pod("q", "n2", "b")],
            [claim("a"), claim("b")],
        )
        answer = await ask(asked, "kubelet_volume_stats_used_bytes")
    assert by_label(answer, "pod") == {"": 10, "p": 3}
    assert asked.counts.foreign_series == 6


async def test_pods_of_a_cluster_alone_speak_of_it() -> None:
    page = b'shards{cluster="demo"} 4\nqueue{cluster="theirs"} 5\n'
    async with MetricsServer({"/metrics": answer(page)}) as server:
        member, stranger = (pod(name, "n1", port=server.port).thawed() for name in ("member", "stranger"))
        member["metadata"]["labels"] = {"navigator.jetstack.io/elasticsearch-cluster-name": "demo"}
        pods = [Object.of(member), Object.of(stranger)]
        targets = ScrapeTargets(list, lambda: pods, list)
        asked = EmbeddedProvider(NodePages({}), targets, SystemClock())
        shards = await ask(asked, "shards")
        queue = await ask(asked, "queue")
    assert by_label(shards, "cluster") == {"demo": 4, "": 4}
    assert by_label(shards, "exported_cluster") == {"": 4, "demo": 4}
    assert by_label(queue, "exported_cluster") == {"theirs": 5}
    assert asked.counts.foreign_series == 0


async def test_a_claim_that_only_asks_for_a_volume_does_not_own_it() -> None:
    asked = provider(
        {"n1": 'used{volumename="pv-a"} 5\nused 1\n'},
        [pod("p", "n1", "thief")],
        [claim("thief", phase="Pending", volume="pv-a"), claim("a")],
    )
    assert by_label(await ask(asked, "used"), "volumename") == {"": 1}


async def test_what_a_target_owns_is_checked_again_when_a_pod_moves() -> None:
    pods = [pod("p", "n1", "a")]
    page = USED.format("db", "a", 50)
    nodes = [node("n1"), node("n2")]
    targets = ScrapeTargets(lambda: nodes, lambda: pods, lambda: [claim("a")])
    asked = EmbeddedProvider(NodePages({"n1": page, "n2": page}), targets, SystemClock())
    expression = "kubelet_volume_stats_used_bytes"
    assert by_label(await ask(asked, expression), "node") == {"n1": 50}
    pods[0] = Object.of(
        {
            **pod("p", "n2", "a").thawed(),
            "metadata": {"name": "p", "namespace": "db", "uid": "p", "resourceVersion": "2"},
        }
    )
    await asked.scrape(0.0)
    assert by_label(await ask(asked, expression), "node") == {"n2": 50}


async def test_annotated_pods_and_pilots_are_scraped() -> None:
    async with MetricsServer({"/stats": b"load 3\n"}) as server:
        shown = pod("p", "n1", port=server.port).thawed()
        shown["metadata"]["annotations"]["prometheus.io/path"] = "/stats"
        pilot = pod("q", "n1").thawed()
        pilot["metadata"]["labels"] = {"navigator.jetstack.io/has-pilot": ""}
        pods = [Object.of(shown), Object.of(pilot), pod("r", "n1", port=0)]
        targets = ScrapeTargets(list, lambda: pods, list)
        assert [each.url for each in targets.list()] == [
            f"http://127.0.0.1:{server.port}/stats",
            "http://127.0.0.1:12001/metrics",
        ]
        asked = EmbeddedProvider(NodePages({}), targets, SystemClock())
        answer = await ask(asked, "load")
        assert not isinstance(answer, QueryFailure)
        assert dict(answer[0].labels) == {"__name__": "load", "namespace": "db", "pod": "p", "node": "n1"}


@pytest.mark.parametrize(
    ("port", "path"),
    [
        ("x", "/"),
        ("0", "/"),
        ("70000", "/"),
        ("80", "@evil/"),
        ("80", "/x\nfailed"),
        ("-1", "/"),
        ("٨٠", "/"),
    ],
)
def test_annotations_that_make_no_address_are_not_followed(port: str, path: str) -> None:
    tree = pod("p", "n1", port=1).thawed()
    tree["metadata"]["annotations"] |= {"prometheus.io/port": port, "prometheus.io/path": path}
    targets = ScrapeTargets(list, lambda: [Object.of(tree)], list)
    assert [each.url for each in targets.list()] == []


@pytest.mark.parametrize(
    ("host", "ports", "urls"),
    [
        (False, [], ["https://127.0.0.1:10250/metrics"]),
        (True, [], []),
        (True, [{"containerPort": 10250}], ["https://127.0.0.1:10250/metrics"]),
    ],
)
def test_a_pod_in_its_nodes_network_names_only_ports_of_its_own(
    host: bool, ports: list[dict[str, int]], urls: list[str]
) -> None:
    tree = pod("p", "n1", port=10250).thawed()
    tree["metadata"]["annotations"]["prometheus.io/scheme"] = "https"
    tree["spec"] |= {"hostNetwork": host, "containers": [{"name": "c", "ports": ports}]}
    targets = ScrapeTargets(list, lambda: [Object.of(tree)], list)
    assert [each.url for each in targets.list()] == urls


@pytest.mark.parametrize(
    "page", [never, endless, Flood(), b"\x00\xff garbage {{{\n" * 1000, b"used{ 1\n" * 1000]
)
async def test_a_hostile_page_costs_little_and_the_others_go_on(
    page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_PAGE_SECONDS", 0.3)
    async with MetricsServer({"/metrics": page}) as server:
        asked = provider(
            {"n1": USED.format("db", "a", 50), "n2": "hangs"},
            [pod("p", "n1", "a"), pod("evil", "n1", port=server.port)],
            [claim("a")],
        )
        tracemalloc.start()
        try:
            answer = await ask(asked, "100 * kubelet_volume_stats_used_bytes")
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert by_label(answer, "persistentvolumeclaim") == {"a": 5000}
    assert peak < 2**25
    if isinstance(page, Flood):
        assert page.sent < 2**25


async def test_a_pod_with_two_pages_does_not_end_a_query_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    page = b"used 1\ncap 2\n"
    async with MetricsServer({"/metrics": page}) as one, MetricsServer({"/metrics": page}) as other:
        monkeypatch.setattr(scrape_targets, "PILOT_PORT", one.port)
        twice = pod("p", "n1", port=other.port).thawed()
        twice["metadata"]["labels"] = {"navigator.jetstack.io/has-pilot": ""}
        asked = provider({"n1": "used 3\ncap 4\n"}, [Object.of(twice)])
        assert by_label(await ask(asked, "used / cap"), "pod") == {"": 0.75, "p": 0.5}
        assert one.asked == other.asked == ["/metrics"]


async def test_a_pod_that_says_something_twice_ends_no_query_about_what_nodes_measure() -> None:
    lies = b'cap{volumename="pv-a"} 1\ncap{volumename="pv-a",x="y"} 1\nload{x="y"} 1\nload 1\n'
    page = 'used{volumename="pv-a"} 3\ncap{volumename="pv-a"} 4\n'
    page += page.replace("pv-a", "pv-b")
    async with MetricsServer({"/metrics": lies}) as server:
        asked = provider(
            {"n1": page},
            [pod("p", "n1", "a", port=server.port), pod("q", "n1", "b")],
            [claim("a"), claim("b")],
        )
        answer = await ask(asked, "used / on (volumename) cap")
        assert by_label(answer, "volumename") == {"pv-a": 0.75, "pv-b": 0.75}
        for expression in ("load / on (pod) load", "used / on (volumename) cap unless on (node) load"):
            refused = await ask(asked, expression)
            assert isinstance(refused, QueryFailure)
            assert refused.message.startswith("found duplicate series")


async def test_pages_that_were_slow_are_read_after_all_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PODS_AT_ONCE", 1)
    slow = asyncio.Event()

    async def late(writer: asyncio.StreamWriter, target: str) -> None:
        await slow.wait()
        writer.write(answer(b"used 1\n"))

    async with MetricsServer({"/metrics": late, "/quick": b"used 2\n"}) as server:
        quick = pod("q", "n1", port=server.port).thawed()
        quick["metadata"]["annotations"]["prometheus.io/path"] = "/quick"
        clock = SystemClock()
        pods = [pod("p", "n1", port=server.port), Object.of(quick)]
        asked = EmbeddedProvider(NodePages({}), ScrapeTargets(list, lambda: pods, list), clock)
        asked.keep(["used"])
        asyncio.get_running_loop().call_later(0.3, slow.set)
        await asked.scrape(0.0)
        await asked.scrape(0.0)
        assert server.asked == ["/metrics", "/quick", "/quick", "/metrics"]


WIDE = "".join(f',l{number}="x"' for number in range(60))


def wide(name: str, series: int) -> str:
    """Series that take far more memory than their text."""
    return "".join(f'{name}{{a="{number}"{WIDE}}} 1\n' for number in range(series))


async def test_pods_whose_series_do_not_fit_take_little_memory_and_are_not_read_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "SeriesStore", partial(SeriesStore, 2**20))
    greedy: dict[str, Page] = {f"/{number}": wide("used", 1000).encode() for number in range(10)}
    async with MetricsServer({**greedy, "/metrics": b"used 1\n"}) as server:
        pods = [pod("p", "n1", port=server.port)]
        for number in range(10):
            tree = pod(f"greedy-{number}", "n1", port=server.port, namespace="greedy").thawed()
            tree["metadata"]["annotations"]["prometheus.io/path"] = f"/{number}"
            pods.append(Object.of(tree))
        asked = EmbeddedProvider(NodePages({}), ScrapeTargets(list, lambda: pods, list), SystemClock())
        asked.keep(["used"])
        tracemalloc.start()
        try:
            await asked.scrape(0.0)
            server.asked.clear()
            for _ in range(3):
                await asked.scrape(0.0)
            taken, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert server.asked == ["/metrics"] * 3
        assert by_label(await ask(asked, "used"), "namespace") == {"db": 1}
        assert taken < 2**22
        assert peak < 2**24
        # Until it has other pods.
        del pods[1:]
        await asked.scrape(0.0)
        pods.append(pod("other", "n1", port=server.port, namespace="greedy"))
        await asked.scrape(0.0)
        assert by_label(await ask(asked, "used"), "namespace") == {"db": 1, "greedy": 1}


async def test_a_metric_of_a_node_that_does_not_fit_takes_little_memory_and_others_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "SeriesStore", partial(SeriesStore, 2**20))
    asked = provider({"n1": wide("used", 5000) + "small 1\n"})
    asked.keep(["used", "small"])
    tracemalloc.start()
    try:
        for _ in range(3):
            await asked.scrape(0.0)
        taken, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert by_label(await ask(asked, "small"), "node") == {"n1": 1}
    refused = await ask(asked, "used")
    assert isinstance(refused, QueryFailure)
    assert refused.reason == "TooManySamples"
    assert taken < 2**23
    assert peak < 2**24


async def test_slow_pages_at_ever_other_paths_keep_no_pod_of_another_namespace_waiting() -> None:
    def evil(number: int, port: int) -> Object:
        tree = pod(f"evil-{number}", "n1", port=port, namespace="evil").thawed()
        tree["metadata"]["annotations"]["prometheus.io/path"] = f"/{number}"
        return Object.of(tree)

    read = asyncio.Event()

    async def good(writer: asyncio.StreamWriter, target: str) -> None:
        read.set()
        writer.write(answer(b"used 1\n"))

    slow: dict[str, Page] = {f"/{number}": never for number in range(20)}
    async with MetricsServer({**slow, "/metrics": good}) as server:
        pods = [*(evil(number, server.port) for number in range(20)), pod("p", "n1", port=server.port)]
        asked = EmbeddedProvider(NodePages({}), ScrapeTargets(list, lambda: pods, list), SystemClock())
        asked.keep(["used"])
        scrape = asyncio.ensure_future(asked.scrape(0.0))
        reached = asyncio.ensure_future(read.wait())
        await asyncio.wait((reached, scrape), return_when=asyncio.FIRST_COMPLETED)
        # Before the first of the others was given up.
        assert reached.done()
        assert len(server.asked) == module._OF_NAMESPACE_AT_ONCE + 1
        scrape.cancel()
        reached.cancel()
        await asyncio.gather(scrape, reached, return_exceptions=True)
        await asked.close()


async def test_a_target_that_fails_is_stale_and_left_alone_for_a_while() -> None:
    pages = NodePages({"n1": "used 1\n", "n2": "used 2\n"})
    targets = ScrapeTargets(lambda: [node("n1"), node("n2")], list, list)
    asked = EmbeddedProvider(pages, targets, SystemClock())
    assert by_label(await ask(asked, "used"), "node") == {"n1": 1, "n2": 2}
    del pages.pages["n2"]
    for _ in range(4):
        await asked.scrape(0.0)
    assert by_label(await ask(asked, "used"), "node") == {"n1": 1}
    assert pages.asked.count("/api/v1/nodes/n2/proxy/metrics") == 3
    assert pages.asked.count("/api/v1/nodes/n1/proxy/metrics") == 5


async def test_without_any_page_nothing_is_concluded() -> None:
    answer = await ask(provider({}), "absent(used)")
    assert answer == QueryFailure("ProviderUnavailable", "no metrics page could be read")
    pages = NodePages({})
    targets = ScrapeTargets(lambda: [node("n1")], list, list)
    answer = await ask(EmbeddedProvider(pages, targets, SystemClock()), "absent(used)")
    assert isinstance(answer, QueryFailure)
    assert "node/n1: no route to host" in answer.message


async def test_what_it_can_not_evaluate_is_said_and_others_are_answered() -> None:
    asked = provider({"n1": "used 1\n"})
    answers = await asked.query(["label_join(used, 'a', 'b')", "used", "used and", "used + on () used"], 0.0)
    assert answers["label_join(used, 'a', 'b')"] == QueryFailure(
        "NotSupported",
        "the embedded provider can't evaluate the function label_join(); configure a Prometheus",
    )
    assert by_label(answers["used"], "node") == {"n1": 1}
    refused = answers["used and"]
    assert isinstance(refused, QueryFailure)
    assert refused.reason == "QueryRefused"


async def test_nothing_is_scraped_while_no_rule_asks() -> None:
    pages = NodePages({"n1": "used 1\n"})
    asked = EmbeddedProvider(pages, ScrapeTargets(lambda: [node("n1")], list, list), SystemClock())
    await asked.scrape(0.0)
    assert pages.asked == []
    asked.keep(["used"])
    await asked.scrape(0.0)
    assert asked.series == 1
    asked.keep([])
    await asked.scrape(0.0)
    assert asked.series == 0


def test_a_node_speaks_of_its_own_storage_pools_and_devices_and_a_pod_of_none() -> None:
    nodes, pods = [node("n1"), node("n1-fast")], [pod("a", "n1", "data", port=9187)]
    targets = {each.id.split()[0]: each for each in ScrapeTargets(lambda: nodes, lambda: pods, list).list()}
    first, second, exporter = (targets[name] for name in ("node/n1", "node/n1-fast", "pod/db/a"))
    assert first.owned({"pool": "n1-slow", "node": "n1", "tier": "slow"})
    assert first.owned({"pool": "n1-fast-default"}) is None
    assert second.owned({"pool": "n1-fast-default"})
    assert second.owned({"pool": "n1-slow"}) is None
    assert exporter.owned({"pool": "n1-slow"}) is None
    assert exporter.owned({"pool": "G1 Eden Space"})
    info = {"namespace": "db", "persistentvolumeclaim": "data", "device": "loop3", "disk": "vda"}
    assert first.owned(info)
    assert second.owned(info) is None
    assert first.owned({**info, "volumename": "pv-of-another"}) is None


async def test_pods_that_come_and_go_change_what_is_their_nodes_own() -> None:
    page = "".join(f'used{{namespace="db",persistentvolumeclaim="data-{n}"}} {n}\n' for n in range(4))
    pods = [pod(f"pod-{n}", "n1", f"data-{n}") for n in range(3)]
    one = provider({"n1": page}, pods, [claim(f"data-{n}") for n in range(4)])
    one.keep(["used"])
    seen = []
    for change in (lambda: None, lambda: pods.pop(0), lambda: pods.append(pod("pod-3", "n1", "data-3"))):
        change()
        await one.scrape(0.0)
        seen.append(
            (set(by_label(await ask(one, "used"), "persistentvolumeclaim")), one.counts.foreign_series)
        )
        one.counts.foreign_series = 0
    assert seen == [
        ({"data-0", "data-1", "data-2"}, 1),
        ({"data-1", "data-2"}, 2),
        ({"data-1", "data-2", "data-3"}, 1),
    ]


_NAMES = st.sampled_from(["a", "b", "c"])
_KEYS = st.frozensets(st.tuples(_NAMES, _NAMES))
_TARGETS = st.builds(
    scrape_targets.ScrapeTarget,
    id=st.just("node/n1"),
    kind=st.sampled_from(["node", "pod"]),
    labels=st.just({"node": "n1"}),
    cluster=st.sampled_from(["", "c1"]),
    volumes=st.frozensets(_NAMES),
    claims=_KEYS,
    pods=_KEYS,
    nodes=st.frozensets(st.sampled_from(["n1", "n2"])),
)
_SERIES = st.fixed_dictionaries(
    {},
    optional={
        **dict.fromkeys(
            ("namespace", "exported_namespace", "pod", "exported_pod", "persistentvolumeclaim", "volumename"),
            st.sampled_from(["", "a", "b", "c"]),
        ),
        "pool": st.sampled_from(["n1-fast", "n2-fast", "heap"]),
        "cluster": st.sampled_from(["c1", "c2"]),
    },
)


@given(before=_TARGETS, after=_TARGETS, series=_SERIES)
def test_what_a_change_does_not_concern_stays_as_it_was(
    before: scrape_targets.ScrapeTarget, after: scrape_targets.ScrapeTarget, series: dict[str, str]
) -> None:
    change, owned = after.change_since(before), before.owned(series)
    if change is not None and owned is not None and not change.concerns(owned):
        assert after.owned(series) == owned


def test_a_change_concerns_only_what_names_it() -> None:
    before = scrape_targets.ScrapeTarget(
        "node/n1",
        "node",
        {"node": "n1"},
        volumes=frozenset({"pv-0", "pv-1"}),
        claims=frozenset({("db", "data-0"), ("db", "data-1")}),
    )
    after = msgspec.structs.replace(before, volumes=frozenset({"pv-1"}), claims=frozenset({("db", "data-1")}))
    change = after.change_since(before)
    assert change is not None
    assert change.concerns({"volumename": "pv-0"})
    assert change.concerns({"namespace": "db", "persistentvolumeclaim": "data-0"})
    assert not change.concerns({"volumename": "pv-1", "pool": "heap"})
    assert not change.concerns({"namespace": "db", "persistentvolumeclaim": "data-1", "pod": "data-0"})
    assert after.change_since(msgspec.structs.replace(before, labels={"node": "n2"})) is None
