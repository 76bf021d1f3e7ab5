from __future__ import annotations

import json
import urllib.request
from functools import partial
from pathlib import Path

import pytest
from tests.kit.control_planes import UpPlane
from tests.kit.processes import Process, free_port
from tests.kit.tools import MissingTool, find


@pytest.mark.long
def test_a_real_prometheus_finds_all_nodes_by_the_printed_configuration(tmp_path: Path) -> None:
    try:
        program = find("prometheus")
    except MissingTool as missing:
        pytest.skip(str(missing))
    with UpPlane(tmp_path / "plane") as plane:
        printed = plane.run("prometheus-config", "--credentials", str(tmp_path / "keys"))
        assert printed.returncode == 0, printed.stderr
        config = tmp_path / "prometheus.yml"
        config.write_text("global: {scrape_interval: 1s}\n" + printed.stdout)
        port = free_port()
        argv = [str(program), f"--config.file={config}", f"--storage.tsdb.path={tmp_path / 'data'}"]
        argv += [f"--web.listen-address=127.0.0.1:{port}", "--log.level=warn"]
        process = Process.start("prometheus", argv, log=tmp_path / "prometheus.log")

        def nodes(metric: str) -> dict[str, float]:
            url = f"http://127.0.0.1:{port}/api/v1/query?query={metric}%7Bjob=%22pilothouse-nodes%22%7D"
            try:
                with urllib.request.urlopen(url, timeout=5) as answer:
                    found = json.load(answer)["data"]["result"]
            except OSError:
                return {}
            return {each["metric"].get("node", ""): float(each["value"][1]) for each in found}

        try:
            wait = partial(process.wait_until, seconds=60)
            wait(lambda: nodes("up") == {"n1": 1.0} or None)
            wait(lambda: nodes("kubelet_running_pods") == {"n1": 0.0} or None)
        finally:
            process.end()
