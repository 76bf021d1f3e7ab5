"""The policy ``wal-held`` on a real Postgres, as Debian's exporter reports it."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.kit.tools import MissingTool, find

from pilothouse.api.policies.expansion import expand
from pilothouse.rules.metrics_pages import parse_series
from pilothouse.rules.promql.memory_series import MemorySeries
from pilothouse.rules.promql.queries import compile_query
from pilothouse.rules.promql.query_evaluation import evaluate

pytestmark = pytest.mark.long
BIN = next(iter(sorted(Path("/usr/lib/postgresql").glob("*/bin"))), None)
SECONDS = 30.0


class Exported:
    """A Postgres with an idle slot, and its exporter."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder = folder
        self.port = port

    def sql(self, text: str) -> None:
        assert BIN is not None
        subprocess.run(
            [*as_postgres(), BIN / "psql", "-h", self.folder, "-qtAc", text, "postgres"],
            check=True,
            capture_output=True,
        )

    def page(self) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=10) as answer:
            text: str = answer.read().decode()
        return text

    def held(self) -> list[tuple[str, float]]:
        """Each slot, and what it holds by the policy's expression."""
        (rule,) = expand("mine", {"application": "postgres", "policies": [{"name": "wal-held"}]}).rules
        series = MemorySeries()
        for line in self.page().splitlines():
            text, _, value = line.rpartition(" ")
            labels = parse_series(text.encode()) if line.startswith("pg_") else None
            if labels is not None:
                series.add(labels, (0,), (float(value),))
        found = evaluate(compile_query(rule.spec["conditions"]["expressions"][0]["key"]), series, 1.0)
        return [
            (labels.labels.get("slot_name", ""), value)
            for labels, value in zip(found.labels, found.values.tolist(), strict=True)
        ]


def as_postgres() -> list[str]:
    """Postgres does not run as root."""
    return ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []


@pytest.fixture
def exported() -> Iterator[Exported]:
    try:
        exporter = find("prometheus-postgres-exporter")
    except MissingTool as missing:
        pytest.skip(str(missing))
    if BIN is None:
        pytest.skip("there is no Postgres; scripts/tools/debian, as root, brings it")
    folder = Path(tempfile.mkdtemp(prefix="pilothouse-postgres-"))
    if os.geteuid() == 0:
        shutil.chown(folder, "postgres")
    data = folder / "data"
    options = f"-c listen_addresses='' -k {folder}"
    control: list[str | Path] = [*as_postgres(), BIN / "pg_ctl", "-D", data, "-w", "-l", folder / "log"]
    subprocess.run(
        [*as_postgres(), BIN / "initdb", "-A", "trust", "-D", data], check=True, capture_output=True
    )
    subprocess.run([*control, "-o", options, "start"], check=True, stdout=subprocess.DEVNULL)
    try:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = int(free.getsockname()[1])
        environment = {
            **os.environ,
            "DATA_SOURCE_NAME": f"user=postgres host={folder} dbname=postgres sslmode=disable",
        }
        process = subprocess.Popen(
            [*as_postgres(), exporter, f"--web.listen-address=127.0.0.1:{port}"],
            env=environment,
            stderr=subprocess.DEVNULL,
        )
        try:
            found = Exported(folder, port)
            deadline = time.monotonic() + SECONDS
            while True:
                try:
                    found.page()
                    break
                except OSError:
                    assert time.monotonic() < deadline, "the exporter does not answer"
                    time.sleep(0.1)
            yield found
        finally:
            process.terminate()
            process.wait()
    finally:
        subprocess.run([*control, "-m", "immediate", "stop"], check=True, stdout=subprocess.DEVNULL)
        shutil.rmtree(folder)


def test_an_idle_slot_holds_what_was_written_since(exported: Exported) -> None:
    assert exported.held() == [("", 0.0)]

    exported.sql("select pg_create_physical_replication_slot('standby', true)")
    exported.sql("create table rows as select generate_series(1, 200000) as number")
    held = dict(exported.held())
    assert held["standby"] > 2**20

    exported.sql("select pg_drop_replication_slot('standby')")
    assert exported.held() == [("", 0.0)]
