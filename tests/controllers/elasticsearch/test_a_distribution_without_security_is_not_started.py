"""On `pilothouse up`, with an image that has no security: a cluster that asks for it is not run open, and says what to do."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from random import Random

from tests.kit.control_planes import UpPlane
from tests.kit.elasticsearch_harness import elastic, pool
from tests.kit.waiting import eventually

from pilothouse.api.kind_names import ElasticsearchCluster, Pilot, Secret
from pilothouse.api.objects import Object
from pilothouse.base.clock import SystemClock
from pilothouse.client.api import Api
from pilothouse.client.http_transport import HttpTransport
from pilothouse.client.kubeconfig import load

VERSION = "8.17.0"
PATIENCE = 180.0


def distribution(folder: Path) -> Path:
    """What a pilot looks at before it starts anything; it comes to nothing more here."""
    for name in ("bin", "config", "lib", "modules"):
        (folder / name).mkdir(parents=True)
    (folder / "lib" / f"elasticsearch-{VERSION}.jar").touch()
    (folder / "config" / "jvm.options").touch()
    program = folder / "bin" / "elasticsearch"
    program.write_text("#!/bin/sh\nexec sleep 1000\n")
    program.chmod(0o755)
    return folder


async def test_it_is_told_and_nothing_is_started(tmp_path: Path) -> None:
    plane = UpPlane(tmp_path)
    image = [sys.executable, "-m", "pilothouse", "image", "import", f"elasticsearch:{VERSION}"]
    image += [str(distribution(tmp_path / "bare")), "--data", str(plane.data)]
    await asyncio.to_thread(subprocess.run, image, check=True, capture_output=True, timeout=120)
    try:
        await asyncio.to_thread(plane.start)
        spec = {"securityContext": {"runAsUser": 1000}} if os.geteuid() == 0 else {}
        tree = elastic("test", version=VERSION, pools=[pool("data", 1)], security={}, **spec)
        access = load(plane.data / "admin.kubeconfig")
        async with HttpTransport.open(access, SystemClock(), agent="test") as transport:
            api = Api(transport, Random(1), manager="test")
            await api.create(ElasticsearchCluster, tree)

            async def refused() -> Object | None:
                found = await api.get(ElasticsearchCluster, "test", "default")
                said = found.condition("Secured") or {}
                return found if said.get("reason") == "DistributionHasNoSecurity" else None

            await eventually(refused, seconds=PATIENCE)
            pilot = await api.get(Pilot, "es-test-data-0", "default")
            assert pilot.at("status", "elasticsearch", "security") == "Absent"
            assert not pilot.status.get("lastStartedTime")
            assert "remove spec.security" in (pilot.condition("Ready") or {})["message"]
            secrets = {each.name for each in (await api.list(Secret, "default")).objects}
            assert {"es-test-authority", "es-test-certificates", "es-test-users"} <= secrets
    finally:
        await asyncio.to_thread(plane.down)
