from __future__ import annotations

import json
import os
import stat
import urllib.request
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
import yaml
from tests.cli.running import Server, pilothouse
from tests.kit.processes import Process, free_port
from tests.kit.tools import MissingTool, find
from tests.metrics.scraped import Scraped

from pilothouse.app.prometheus import Files, scrape_config

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
        assert Path(line.removeprefix("Prometheus must be able to read ")).exists()
    return told.stdout


def test_both_pages_with_the_kubeconfigs_certificate(server, tmp_path):
    *jobs, nodes = yaml.safe_load(printed(server, tmp_path))["scrape_configs"]
    assert nodes["job_name"] == "pilothouse-nodes"
    assert nodes["http_sd_configs"][0]["url"] == f"{server.url}/pilothouse/v1/node-targets"
    assert [(job["job_name"], job["metrics_path"]) for job in jobs] == [
        ("pilothouse-apiserver", "/metrics"),
        ("pilothouse-objects", "/metrics/objects"),
    ]
    for job in jobs:
        assert job["scheme"] == "https"
        assert job["static_configs"] == [{"targets": [server.url.removeprefix("https://")]}]
        assert set(job["tls_config"]) == {"ca_file", "cert_file", "key_file"}
        for file in job["tls_config"].values():
            assert stat.S_IMODE(os.stat(file).st_mode) == 0o600
            assert "BEGIN" in Path(file).read_text()


def test_a_token_of_ones_own_stays_where_it_is(server, tmp_path):
    token = tmp_path / "token"
    token.write_text("m-token")
    for job in yaml.safe_load(printed(server, tmp_path, "--token-file", str(token)))["scrape_configs"]:
        assert job["authorization"] == {"type": "Bearer", "credentials_file": str(token)}
        assert set(job["tls_config"]) == {"ca_file"}


def test_addresses_of_every_form():
    def place(url: str) -> tuple[str, str]:
        job = scrape_config(url, Files())["scrape_configs"][0]
        return job["static_configs"][0]["targets"][0], job["metrics_path"]

    assert place("https://10.0.0.1:6443") == ("10.0.0.1:6443", "/metrics")
    assert place("https://[::1]:6443") == ("[::1]:6443", "/metrics")
    assert place("https://api.example.org") == ("api.example.org:443", "/metrics")
    assert place("https://proxy.example.org/fleet/") == ("proxy.example.org:443", "/fleet/metrics")


def test_what_is_wrong_is_told_in_one_line(tmp_path):
    told = pilothouse("prometheus-config", "--data", str(tmp_path))
    assert told.returncode == 1
    assert told.stderr.startswith("Error: ")
    assert len(told.stderr.splitlines()) == 1
    assert not (tmp_path / "pilothouse-credentials").exists()


@pytest.mark.long
@pytest.mark.parametrize("way", ["certificate", "token"])
def test_a_real_prometheus_scrapes_with_it(server, tmp_path, way):
    try:
        program = find("prometheus")
    except MissingTool as missing:
        pytest.skip(str(missing))
    token = tmp_path / "token"
    token.write_text("m-token")
    flags = ("--token-file", str(token)) if way == "token" else ()
    config = tmp_path / "prometheus.yml"
    config.write_text("global: {scrape_interval: 1s}\n" + printed(server, tmp_path, *flags))
    port = free_port()
    argv = [program, f"--config.file={config}", f"--storage.tsdb.path={tmp_path / 'data'}"]
    argv += [f"--web.listen-address=127.0.0.1:{port}", "--log.level=warn"]
    process = Process.start("prometheus", [str(each) for each in argv], log=tmp_path / "prometheus.log")

    def query(text: str) -> dict[str, float]:
        url = f"http://127.0.0.1:{port}/api/v1/query?query={text}"
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                found = json.load(answer)["data"]["result"]
        except OSError:
            return {}
        return {each["metric"].get("job", ""): float(each["value"][1]) for each in found}

    try:
        both = {"pilothouse-apiserver": 1.0, "pilothouse-objects": 1.0}
        wait = partial(process.wait_until, seconds=60)
        wait(lambda: query("up") == both or None)
        wait(lambda: query("sum+by+(job)+(kube_namespace_created)").get("pilothouse-objects"))
        wait(lambda: query("sum+by+(job)+(apiserver_request_total)").get("pilothouse-apiserver"))
        # Prometheus drops lines that it doesn't like without failing the scrape; it must have taken every one.
        told = len(Scraped.read(server.get("/metrics/objects").body).samples)
        wait(lambda: query("scrape_samples_scraped").get("pilothouse-objects") == told or None)
    finally:
        process.end()
