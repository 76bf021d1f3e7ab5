"""Health, readiness and figures of a manager, over HTTP, and whom the server takes it for."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.cli.running import pilothouse
from tests.kit.kubectl import Kubectl, newest
from tests.kit.managers import shown, started
from tests.kit.pilothouse_server import PilothouseServer
from tests.kit.processes import Process
from tests.kit.waiting import eventually

EXAMPLES = Path(__file__).parents[3] / "examples"
FAST = (
    "--leader-elect-lease-duration=3s",
    "--leader-elect-renew-deadline=2s",
    "--leader-elect-retry-period=500ms",
)


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def server(tmp_path: Path, stack: ExitStack) -> PilothouseServer:
    server = PilothouseServer(tmp_path / "server", "sqlite")
    stack.callback(server.close)
    return server


def own(server: PilothouseServer) -> Path:
    """The kubeconfig that the server made for the manager."""
    return server.target.kubeconfig.with_name("controller-manager.kubeconfig")


def manager(server: PilothouseServer, folder: Path, stack: ExitStack) -> Process:
    process = started(own(server), folder, *FAST)
    stack.callback(process.kill)
    return process


async def page(process: Process, path: str, *texts: str) -> str:
    """What a page says once it is well and says all of these."""

    async def said() -> str | None:
        status, text = await asyncio.to_thread(shown, process, path)
        return text if status == 200 and all(each in text for each in texts) else None

    # Whoever follows a server that was away comes back after a pause of up to half a minute.
    return await eventually(said, seconds=90)


def of_rules(process: Process) -> set[str]:
    """The libraries of rules that a process has loaded."""
    mapped = Path(f"/proc/{process.pid}/maps").read_text()
    return {name for name in ("numpy", "promql_parser") if f"/{name}/" in mapped}


async def test_one_leads_and_one_stands_by_and_takes_over_at_once(
    server: PilothouseServer, tmp_path: Path, stack: ExitStack
) -> None:
    first = manager(server, tmp_path / "1", stack)
    name = (await page(first, "/readyz", "leads", "[+]caches ok")).splitlines()[-1].removesuffix(" leads")
    second = manager(server, tmp_path / "2", stack)
    await page(second, "/readyz", f"stands by; {name} leads")
    await page(second, "/healthz", "[+]election ok")
    assert _figure(await page(first, "/metrics"), "pilothouse_manager_leads") == 1
    assert _figure(await page(second, "/metrics"), "pilothouse_manager_leads") == 0
    assert [of_rules(first), of_rules(second)] == [set(), set()], "without a rule"
    kubectl = Kubectl(newest(), server.target.kubeconfig, tmp_path / "home")
    (await kubectl("apply", "-f", str(EXAMPLES / "postgres-rule.yaml"))).ok()
    await page(first, "/metrics", "autopilot_rules_in_system 1\n", "pilothouse_rule_scrapes_total")
    assert of_rules(first) == {"numpy", "promql_parser"}
    standby = await page(second, "/metrics", "pilothouse_rule_scrapes_total")
    assert "autopilot_" not in standby
    assert first.end() == 0
    await page(second, "/metrics", "pilothouse_manager_leads 1", "autopilot_rules_in_system 1\n")
    await page(second, "/metrics", 'pilothouse_decisions_total{controller="service-accounts"')
    assert "Traceback" not in first.output() + second.output()


async def test_it_is_not_healthy_without_its_server(
    server: PilothouseServer, tmp_path: Path, stack: ExitStack
) -> None:
    process = manager(server, tmp_path, stack)
    await page(process, "/healthz", "leads")
    server.process.end()

    async def unwell() -> bool:
        status, text = await asyncio.to_thread(shown, process, "/healthz")
        return status == 503 and "[-]caches failed" in text and "no process leads" in text

    await eventually(unwell)
    server.revive()
    await page(process, "/healthz", "healthz check passed", "leads")


async def test_it_acts_as_somebody_who_is_no_administrator(
    server: PilothouseServer, tmp_path: Path, stack: ExitStack
) -> None:
    kubectl = Kubectl(newest(), own(server), tmp_path / "home")
    who = (await kubectl("auth", "whoami")).ok()
    assert "pilothouse:controller-manager" in who
    assert "system:masters" not in who
    refused = await kubectl("create", "clusterrolebinding", "x", "--clusterrole=cluster-admin", "--user=x")
    assert refused.code != 0
    assert "forbidden" in refused.err
    manager(server, tmp_path, stack)
    admin = Kubectl(newest(), server.target.kubeconfig, tmp_path / "home")

    async def account() -> bool:
        return (await admin("get", "serviceaccount", "default")).code == 0

    await eventually(account)


async def test_a_pilot_goes_as_soon_as_it_was_told_to_let_them_go(
    server: PilothouseServer, tmp_path: Path, stack: ExitStack
) -> None:
    kubectl = Kubectl(newest(), server.target.kubeconfig, tmp_path / "home")
    lone = {"apiVersion": "navigator.jetstack.io/v1beta1", "kind": "Pilot", "metadata": {"name": "lone"}}
    (await kubectl("apply", "-f", "-", stdin=json.dumps(lone))).ok()
    stack.callback(started(own(server), tmp_path, *FAST, "--pilot-collection-period=1s").kill)

    async def gone() -> bool:
        return "lone" not in (await kubectl("get", "pilots", "-o", "name")).ok()

    await eventually(gone, seconds=60)


async def test_it_says_what_is_wrong_with_its_flags(server: PilothouseServer) -> None:
    config = ("--kubeconfig", str(own(server)))
    unknown = pilothouse("controller-manager", *config, "--controllers=*,-nobody")
    assert unknown.returncode == 2
    assert "there is no controller 'nobody'; there are" in unknown.stderr
    assert "stateful-sets" in unknown.stderr
    none = pilothouse("controller-manager", *config, "--controllers=-stateful-sets")
    assert none.returncode == 2
    assert "no controller is selected; '*' selects all of them, and '*,-name' all but one" in none.stderr
    short = pilothouse("controller-manager", *config, "--leader-elect-lease-duration=5s")
    assert short.returncode == 2
    assert "the lease (5 s) must be longer than the time to renew it (10 s)" in short.stderr
    hasty = pilothouse("controller-manager", *config, "--pilot-silence-period=10s")
    assert hasty.returncode == 2
    assert "'10s' is too short: it must be at least 25s" in hasty.stderr
    host = server.target.url.removeprefix("https://")
    taken = pilothouse("controller-manager", *config, f"--listen={host}")
    assert taken.returncode == 1
    assert re.search(rf"can't listen on {re.escape(host)}: .*in use", taken.stderr)


def _figure(text: str, name: str) -> float:
    [family] = [each for each in text_string_to_metric_families(text) if each.name == name]
    [sample] = family.samples
    return sample.value
