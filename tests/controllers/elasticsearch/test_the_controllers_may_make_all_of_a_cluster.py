"""The manager is no administrator: what it makes for a cluster has to be among its own rights on a live server."""

from __future__ import annotations

import json
from pathlib import Path

from tests.kit import managers
from tests.kit.elasticsearch_harness import elastic, pool
from tests.kit.kubectl import Kubectl, newest
from tests.kit.pilothouse_server import PilothouseServer
from tests.kit.waiting import eventually

from pilothouse.api.objects import Object
from pilothouse.controllers.elasticsearch.desired.pools import pools_of, set_name
from pilothouse.controllers.elasticsearch.desired.supporting_objects import supporting_objects

CLUSTER = elastic("demo", pools=[pool("master", 1, "master"), pool("data", 2, "data", "ingest")])


async def test_all_that_supports_a_cluster_and_its_sets_are_made(tmp_path: Path) -> None:
    cluster = Object.of(CLUSTER)
    pools = pools_of(cluster, ())
    wanted = {
        f"{each['kind']}/{each['metadata']['name']}"
        for each in supporting_objects(cluster, pools.values(), spare=0)
    }
    wanted |= {f"StatefulSet/{set_name(cluster, name)}" for name in pools}
    kinds = ",".join(sorted({each.partition("/")[0].lower() for each in wanted}))
    server = PilothouseServer(tmp_path / "server", "sqlite")
    try:
        own = server.target.kubeconfig.parent / "controller-manager.kubeconfig"
        kubectl = Kubectl(newest(), server.target.kubeconfig, tmp_path / "home")
        (await kubectl("apply", "-f", "-", stdin=json.dumps(CLUSTER))).ok()
        manager = managers.started(own, tmp_path, "--no-leader-elect")

        async def missing() -> set[str]:
            found = json.loads((await kubectl("get", kinds, "-o", "json")).ok())["items"]
            return wanted - {f"{each['kind']}/{each['metadata']['name']}" for each in found}

        async def all_made() -> bool:
            return not await missing()

        try:
            await eventually(all_made, seconds=30)
        except AssertionError:
            raise AssertionError(f"not made: {sorted(await missing())}\n{manager.output()[-3000:]}") from None
        finally:
            manager.end(seconds=5)
        assert "forbidden" not in manager.output()
    finally:
        server.close()
