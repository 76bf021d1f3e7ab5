"""Generated pods and sets get the same verdicts, in the same words, as from a real kube-apiserver.

The one difference is that of ``docs/pod-fields.md``: what no policy forbids may still be a field that our nodes
can't honour. ``hostUsers: true`` is left out: Kubernetes has no check for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import re
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest
from multidict import CIMultiDict
from tests.apiserver.pod_security.generating import Generator
from tests.kit.http import STRATEGIC, Answer, Http, Json
from tests.kit.kube import KubeServer
from tests.kit.pilothouse_server import PilothouseServer
from tests.kit.run_report import Tell
from tests.kit.servers import Server
from tests.kit.waiting import eventually

pytestmark = pytest.mark.long

PODS = 20_000 if os.environ.get("PILOTHOUSE_SOAK") else 1500
AT_ONCE = 8
PREFIX = "pod-security.kubernetes.io/"
VERSIONS = ("latest", *(f"v1.{minor}" for minor in (0, 7, 8, 18, 19, 21, 22, 24, 25, 27, 29, 31, 32, 33, 40)))


GENERATED = r"(?<=gen-)[a-z0-9]{5}"
CONFIGURATION = """
apiVersion: apiserver.config.k8s.io/v1
kind: AdmissionConfiguration
plugins:
- name: PodSecurity
  path: pod-security.yaml
"""
POD_SECURITY = """
apiVersion: pod-security.admission.config.k8s.io/v1
kind: PodSecurityConfiguration
defaults: {enforce: baseline, warn: restricted, audit: restricted, audit-version: v1.24}
exemptions: {namespaces: [ps-exempt]}
"""
Servers = tuple[Server, Server]
Ask = Callable[[Http], Awaitable[Answer]]


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    """Ours and theirs, with the same configuration."""
    folder = tmp_path_factory.mktemp("pod-security")
    file = folder / "admission.yaml"
    file.write_text(CONFIGURATION)
    (folder / "pod-security.yaml").write_text(POD_SECURITY)
    flag = f"--admission-control-config-file={file}"
    with contextlib.ExitStack() as stack:
        ours = PilothouseServer(folder / "ours", "memory", flags=(flag,))
        stack.callback(ours.close)
        theirs = KubeServer(folder / "theirs", flags=(flag, "--allow-privileged=true"))
        stack.callback(theirs.close)
        yield ours, theirs


def namespaces(source: random.Random) -> dict[str, dict[str, str]]:
    """Their names and labels."""
    made: dict[str, dict[str, str]] = {"ps-bare": {}}
    for level in ("baseline", "restricted"):
        for version in VERSIONS:
            made[f"ps-{level}-{version.replace('.', '-')}"] = {
                "enforce": level,
                "enforce-version": version,
            }
    for number in range(6):
        made[f"ps-mixed-{number}"] = {
            mode: source.choice(("privileged", "baseline", "restricted"))
            for mode in ("enforce", "audit", "warn")
        } | {"warn-version": source.choice(VERSIONS)}
    made["ps-exempt"] = {"enforce": "restricted"}
    made["ps-warned"] = {"warn": "restricted", "audit": "baseline"}
    return made


async def test_pods_get_the_same_verdicts(servers: Servers, tell: Tell) -> None:
    source = random.Random(20)
    async with Http.to(servers[0].target) as ours, Http.to(servers[1].target) as theirs:
        made = namespaces(source)
        for name, labels in made.items():
            await asyncio.gather(prepare(ours, name, labels), prepare(theirs, name, labels))
        generator = Generator(source)
        seen: dict[int, int] = {}
        invalid = unsupported = 0
        wanted: dict[str, Json] = {}
        for first in range(0, PODS, AT_ONCE):
            batch = [generator.pod(f"p-{number}") for number in range(first, first + AT_ONCE)]
            places = [source.choice(list(made)) for _ in batch]
            answers = await asyncio.gather(
                *(
                    try_on(http, place, pod)
                    for place, pod in zip(places, batch, strict=True)
                    for http in (ours, theirs)
                )
            )
            for index, (place, pod) in enumerate(zip(places, batch, strict=True)):
                mine, real = answers[2 * index : 2 * index + 2]
                if real.status == 422:
                    invalid += 1
                    assert mine.status in (403, 422), (real.message, pod)
                    continue
                if mine.status == 422:
                    # No policy forbids it, and no node of ours can do it.
                    assert real.status == 201, (made[place], pod, mine.message, real.message)
                    assert "our nodes can't honour this" in mine.message, mine.message
                    unsupported += 1
                    continue
                assert (mine.status, mine.message) == (real.status, real.message), (made[place], pod)
                assert about_policy(mine) == about_policy(real), (made[place], pod)
                seen[mine.status] = seen.get(mine.status, 0) + 1
                wanted[pod["metadata"]["name"]] = pod
        assert sum(seen.values()) >= 1000
        # Neither a world where everything is allowed nor one where nothing is would show much.
        assert min(seen[201], seen[403]) > 200, seen
        assert invalid < PODS / 20, invalid
        recorded = await compare_records(servers[0].audit_log, servers[1].audit_log, set(wanted))
        tell(
            f"{sum(seen.values())} pods in {len(made)} namespaces: {seen[403]} refused and {seen[201]} admitted, in "
            f"the words of a kube-apiserver; {unsupported} more that no policy forbids and our nodes can't run; "
            f"{recorded} audit records alike"
        )


async def test_templates_get_the_same_warnings(servers: Servers) -> None:
    source = random.Random(21)
    async with Http.to(servers[0].target) as ours, Http.to(servers[1].target) as theirs:
        labels = {"warn": "restricted", "audit": "baseline", "enforce": "restricted"}
        await asyncio.gather(prepare(ours, "ps-sets", labels), prepare(theirs, "ps-sets", labels))
        generator = Generator(source)
        warned = 0
        for number in range(80):
            pod = generator.pod("unused")
            template = {"metadata": {"labels": {"app": "a"}}, "spec": pod["spec"]}
            stateful_set = {
                "apiVersion": "apps/v1",
                "kind": "StatefulSet",
                "metadata": {"name": f"s-{number}"},
                "spec": {"serviceName": "a", "selector": {"matchLabels": {"app": "a"}}, "template": template},
            }
            path = "/apis/apps/v1/namespaces/ps-sets/statefulsets"
            mine, real = await asyncio.gather(
                ours.post(path, stateful_set, dryRun="All"), theirs.post(path, stateful_set, dryRun="All")
            )
            if mine.status == real.status == 201:
                assert about_policy(mine) == about_policy(real), stateful_set
                warned += bool(about_policy(mine))
        assert warned > 20


async def test_labels_and_tightening_are_answered_alike(servers: Servers) -> None:
    async with Http.to(servers[0].target) as ours, Http.to(servers[1].target) as theirs:

        async def on_both(ask: Ask) -> tuple[Answer, Answer]:
            return await asyncio.gather(ask(ours), ask(theirs))

        wrong = {f"{PREFIX}enforce": "strict", f"{PREFIX}warn-version": "v2.1", f"{PREFIX}audit": ""}
        namespace = {"metadata": {"name": "ps-wrong", "labels": wrong}}
        mine, real = await on_both(lambda http: http.post("/api/v1/namespaces", namespace))
        assert mine.status == real.status == 422
        assert mine.message == real.message
        assert mine.causes == real.causes

        await on_both(lambda http: prepare(http, "ps-tight", {"enforce": "privileged"}))
        path = "/api/v1/namespaces/ps-tight"
        bare = {"containers": [{"name": "a", "image": "registry.example.com/a:1"}]}
        shared = {**bare, "hostNetwork": True}
        for name, spec in (("a", bare), ("b", shared), ("c", shared), ("d", shared), ("e", bare)):
            pod = {"metadata": {"name": name}, "spec": {**spec, "automountServiceAccountToken": False}}

            def create(http: Http, pod: Json = pod) -> Awaitable[Answer]:
                return http.post(f"{path}/pods", pod)

            for answer in await on_both(create):
                answer.expect(201)
        for labels in (
            {"enforce": "baseline"},
            {"enforce": "restricted"},
            {"enforce": "restricted", "enforce-version": "v1.8"},
            {"enforce": "privileged"},
            {"warn": "restricted"},
            {"enforce": "nonsense"},
        ):
            patch = {"metadata": {"labels": {f"{PREFIX}{key}": value for key, value in labels.items()}}}

            async def said(patch: Json = patch) -> tuple[Answer, Answer] | None:
                both = await on_both(lambda http: http.patch(path, patch, dryRun="All"))
                # kube-apiserver knows its pods by an informer, which may be a moment behind.
                return both if len(both[0].warnings) == len(both[1].warnings) else None

            mine, real = await eventually(said, seconds=20)
            assert (mine.status, mine.warnings) == (real.status, real.warnings)
            assert mine.status == 200 or mine.message == real.message


async def test_updates_and_generated_names_are_judged_alike(servers: Servers) -> None:
    async with Http.to(servers[0].target) as ours, Http.to(servers[1].target) as theirs:

        async def alike(ask: Ask) -> Answer:
            mine, real = await asyncio.gather(ask(ours), ask(theirs))
            assert (mine.status, about_policy(mine)) == (real.status, about_policy(real))
            if mine.status >= 400:
                assert re.sub(GENERATED, "", mine.message) == re.sub(GENERATED, "", real.message)
            return mine

        await alike(lambda http: prepare(http, "ps-changed", {"enforce": "privileged"}))
        namespace = "/api/v1/namespaces/ps-changed"
        container = {"name": "a", "image": "registry.example.com/a:1"}
        pod: Json = {"metadata": {"name": "a"}, "spec": {"containers": [container], "hostNetwork": True}}
        assert (await alike(lambda http: http.post(f"{namespace}/pods", pod))).status == 201
        tighten = {"metadata": {"labels": {f"{PREFIX}enforce": "baseline"}}}
        assert (await alike(lambda http: http.patch(namespace, tighten))).status == 200

        async def seen() -> bool:
            refused = await theirs.post(f"{namespace}/pods", {**pod, "metadata": {"name": "b"}}, dryRun="All")
            return refused.status == 403

        # kube-apiserver knows its namespaces by an informer, which may be a moment behind.
        await eventually(seen, seconds=20)
        changes: list[tuple[Json, int]] = [
            ({"metadata": {"labels": {"x": "y"}}}, 200),
            ({"metadata": {"annotations": {"x": "y"}}}, 200),
            ({"spec": {"activeDeadlineSeconds": 9}}, 200),
            ({"spec": {"containers": [{**container, "image": "registry.example.com/a:2"}]}}, 403),
        ]
        for change, expected in changes:

            def patch(http: Http, change: Json = change) -> Awaitable[Answer]:
                return http.patch(f"{namespace}/pods/a", change, type=STRATEGIC)

            assert (await alike(patch)).status == expected, change
        status = {"status": {"conditions": [{"type": "example.com/x", "status": "True"}]}}
        assert (await alike(lambda http: http.patch(f"{namespace}/pods/a/status", status))).status == 200
        named = {**pod, "metadata": {"generateName": "gen-"}}
        assert (await alike(lambda http: http.post(f"{namespace}/pods", named))).status == 403


async def prepare(http: Http, name: str, labels: dict[str, str]) -> Answer:
    metadata = {"name": name, "labels": {f"{PREFIX}{key}": value for key, value in labels.items()}}
    answer = await http.post("/api/v1/namespaces", {"metadata": metadata})
    answer.expect(201)
    # Nothing makes it here, and without it there are no pods.
    account = await http.post(f"/api/v1/namespaces/{name}/serviceaccounts", {"metadata": {"name": "default"}})
    account.expect(201, 409)
    return answer


async def try_on(http: Http, namespace: str, pod: Json) -> Answer:
    path = f"/api/v1/namespaces/{namespace}/pods"
    headers = CIMultiDict({"Audit-ID": f"ps-{pod['metadata']['name']}"})
    return await http.post(path, pod, headers=headers, dryRun="All")


def about_policy(answer: Answer) -> list[str]:
    return [text for text in answer.warnings if "PodSecurity" in text]


async def compare_records(ours: Path, theirs: Path, names: set[str]) -> int:
    """How many audit records have the same annotations on both sides."""

    async def complete() -> tuple[dict[str, Json], dict[str, Json]] | None:
        found = annotations_in(ours, names), annotations_in(theirs, names)
        return found if all(len(each) == len(names) for each in found) else None

    mine, real = await eventually(complete, seconds=30)
    for name in names:
        assert mine[name] == real[name], name
    assert any(f"{PREFIX}audit-violations" in each for each in real.values())
    return len(names)


def annotations_in(log: Path, names: set[str]) -> dict[str, Json]:
    found = {}
    for line in log.read_text().splitlines():
        record = json.loads(line)
        name = record["auditID"].removeprefix("ps-")
        if record["stage"] == "ResponseComplete" and name in names:
            notes = record.get("annotations") or {}
            found[name] = {key: text for key, text in notes.items() if key.startswith(PREFIX)}
    return found
