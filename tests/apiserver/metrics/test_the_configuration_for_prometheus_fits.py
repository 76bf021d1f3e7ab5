from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
import yaml
from tests.apiserver.metrics.scraped import Scraped
from tests.cli.running import Server, pilothouse
from tests.kit.prometheus import Prometheus
from tests.kit.tools import MissingTool

from pilothouse.app.prometheus_config import Files, scrape_config

TOKENS = 'm-token,prometheus,u1,"system:monitoring"\n'


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder: Path = tmp_path_factory.mktemp("server")
    (folder / "tokens.csv").write_text(TOKENS)
    with Server(folder / "data", "--token-auth-file", str(folder / "tokens.csv")) as server:
        yield server


def printed(server: Server, folder: Path, *flags: str) -> str:
    told = pilothouse(
        "prometheus-config",
        "--kubeconfig",
        str(server.kubeconfig),
        "--credentials",
        str(folder / "keys"),
        *flags,
    )
    assert told.returncode == 0, told.stderr
    for line in told.stderr.splitlines():
        if line.startswith("no controller-manager is known"):
            assert "--manager" not in flags
            continue
        assert Path(line.removeprefix("Prometheus must be able to read ")).exists()
    return told.stdout


def test_both_pages_with_the_kubeconfigs_certificate(server: Server, tmp_path: Path) -> None:
    *jobs, nodes, pilots = yaml.safe_load(printed(server, tmp_path))["scrape_configs"]
    assert pilots["job_name"] == "pilothouse-pilots"
    assert pilots["http_sd_configs"][0]["url"] == f"{server.url}/pilothouse/v1/pilot-targets"
    assert nodes["job_name"] == "pilothouse-nodes"
    assert nodes["http_sd_configs"][0]["url"] == f"{server.url}/pilothouse/v1/node-targets"
    assert [(job["job_name"], job["metrics_path"]) for job in jobs] == [
        ("pilothouse-apiserver", "/metrics"),
        ("pilothouse-objects", "/metrics/objects"),
    ]
    servers, objects = jobs
    assert servers["http_sd_configs"][0]["url"] == f"{server.url}/pilothouse/v1/server-targets"
    assert objects["static_configs"] == [{"targets": [server.url.removeprefix("https://")]}]
    for job in jobs:
        assert job["scheme"] == "https"
        assert set(job["tls_config"]) == {"ca_file", "cert_file", "key_file"}
        for file in job["tls_config"].values():
            assert stat.S_IMODE(os.stat(file).st_mode) == 0o600
            assert "BEGIN" in Path(file).read_text()


def test_a_token_of_ones_own_stays_where_it_is(server: Server, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("m-token")
    *jobs, pilots = yaml.safe_load(printed(server, tmp_path, "--token-file", str(token)))["scrape_configs"]
    for job in (*jobs, *pilots["http_sd_configs"]):
        assert job["authorization"] == {"type": "Bearer", "credentials_file": str(token)}
        assert set(job["tls_config"]) == {"ca_file"}


def test_managers_are_where_one_says(server: Server, tmp_path: Path) -> None:
    named = ("--manager", "127.0.0.1:10257", "--manager", "[::1]:10258")
    *_, managers = yaml.safe_load(printed(server, tmp_path, *named))["scrape_configs"]
    assert managers["static_configs"] == [{"targets": ["127.0.0.1:10257", "[::1]:10258"]}]


def test_addresses_of_every_form() -> None:
    def place(url: str) -> tuple[str, str]:
        job = scrape_config(url, Files())["scrape_configs"][1]
        return job["static_configs"][0]["targets"][0], job["metrics_path"]

    assert place("https://10.0.0.1:6443") == ("10.0.0.1:6443", "/metrics/objects")
    assert place("https://[::1]:6443") == ("[::1]:6443", "/metrics/objects")
    assert place("https://api.example.org") == ("api.example.org:443", "/metrics/objects")
    assert place("https://proxy.example.org/fleet/") == ("proxy.example.org:443", "/fleet/metrics/objects")


def test_behind_a_proxy_with_a_path_one_server_stands_for_all() -> None:
    job = scrape_config("https://proxy.example.org/fleet/", Files())["scrape_configs"][0]
    assert job["static_configs"] == [{"targets": ["proxy.example.org:443"]}]
    assert job["metrics_path"] == "/fleet/metrics"


def test_what_is_wrong_is_told_in_one_line(tmp_path: Path) -> None:
    told = pilothouse("prometheus-config", "--data", str(tmp_path))
    assert told.returncode == 1
    assert told.stderr.startswith("Error: ")
    assert len(told.stderr.splitlines()) == 1
    assert not (tmp_path / "pilothouse-credentials").exists()


@pytest.mark.long
@pytest.mark.parametrize("way", ["certificate", "token"])
def test_a_real_prometheus_scrapes_with_it(server: Server, tmp_path: Path, way: str) -> None:
    token = tmp_path / "token"
    token.write_text("m-token")
    flags = ("--token-file", str(token)) if way == "token" else ()
    try:
        made = Prometheus(printed(server, tmp_path, *flags), tmp_path)
    except MissingTool as missing:
        pytest.skip(str(missing))
    with made as prometheus:

        def query(text: str) -> dict[str, float]:
            return {labels.get("job", ""): value for labels, value in prometheus.query(text)}

        assert prometheus.process is not None
        both = {"pilothouse-apiserver": 1.0, "pilothouse-objects": 1.0}
        wait = partial(prometheus.process.wait_until, seconds=60)
        wait(lambda: query("up") == both or None)
        wait(lambda: query("sum by (job) (kube_namespace_created)").get("pilothouse-objects"))
        wait(lambda: query("sum by (job) (apiserver_request_total)").get("pilothouse-apiserver"))
        # Prometheus drops lines that it doesn't like without failing the scrape; it must have taken every one.
        told = len(Scraped.read(server.get("/metrics/objects").body).samples)
        wait(lambda: query("scrape_samples_scraped").get("pilothouse-objects") == told or None)
        # Whoever may scrape may also ask what there is to be scraped.
        failed = re.findall(
            r"^prometheus_sd_http_failures_total (.+)", prometheus.page("/metrics").decode(), re.M
        )
        assert failed == ["0"]
