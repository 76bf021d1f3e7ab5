"""The Postgres of the examples on any control plane, and a rule that grows its volume.

postgres = Postgres(plane, "default")
await postgres.start()
with postgres.steadily_written():
    await postgres.reaches("postgres-volumes", "ActionsDeclined")
"""

from __future__ import annotations

import json
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import yaml
from tests.kit.kubectl import Kubectl
from tests.kit.waiting import eventually

EXAMPLES = Path(__file__).parents[2] / "examples"
RULE = "postgres-volumes"
"""The rule of the example."""
MI = 1 << 20
PATIENCE = 300.0
ROW = "insert into filler select repeat(md5(random()::text), 250) from generate_series(1, {rows})"
"""Rows of 8000 characters, which take as much in the log as in the table."""
ROW_BYTES = 16000
ROWS_A_SECOND = 250
"""4 MB a second: a volume of 320Mi that is half full lasts for 40 seconds, and the example's rule takes half of that."""
STARTED = "select pg_postmaster_start_time()"
Json = dict[str, Any]


class Plane(Protocol):
    """A control plane with a node."""

    folder: Path

    @property
    def kubectl(self) -> Kubectl: ...


class Postgres:
    """A server of the example, in a namespace of its own; ``inside`` are words before a command that is to reach it."""

    def __init__(self, plane: Plane, namespace: str, inside: Sequence[str] = ()) -> None:
        self.plane = plane
        self.namespace = namespace
        self.inserts = 0
        self._inside = tuple(inside)

    async def kubectl(self, *words: str) -> str:
        return (await self.plane.kubectl("-n", self.namespace, *words)).ok()

    async def json(self, *words: str) -> Json:
        found: Json = json.loads(await self.kubectl("get", *words, "-o", "json"))
        return found

    async def apply(self, *objects: Json) -> None:
        path = self.plane.folder / f"{self.namespace}.yaml"
        path.write_text(yaml.safe_dump_all(objects))
        await self.kubectl("apply", "-f", str(path))

    async def start(self, size: str = "320Mi", storage_class: str = "loop") -> None:
        """One server instead of three, with a volume of this size and class."""
        await self.plane.kubectl("create", "namespace", self.namespace)
        objects = list(yaml.safe_load_all((EXAMPLES / "postgres.yaml").read_text()))
        for each in objects:
            if each["kind"] == "StatefulSet":
                each["spec"]["replicas"] = 1
                (claim,) = each["spec"]["volumeClaimTemplates"]
                claim["spec"]["resources"]["requests"]["storage"] = size
                claim["spec"]["storageClassName"] = storage_class
        await self.apply(*objects)
        await self.ready()
        self.query("create table filler (text text); alter table filler alter text set storage external")

    async def ready(self) -> None:
        async def look() -> bool:
            got = await self.plane.kubectl("-n", self.namespace, "get", "pod", "postgres-0", "-o", "json")
            pod = json.loads(got.out) if got.code == 0 else {}
            self.address = str((pod.get("status") or {}).get("podIP", ""))
            statuses = (pod.get("status") or {}).get("containerStatuses") or [{}]
            return all(each.get("ready") for each in statuses)

        await eventually(look, seconds=PATIENCE)

    def query(self, text: str) -> str:
        words = [
            *self._inside,
            "psql",
            "-h",
            self.address,
            "-U",
            "postgres",
            "-v",
            "ON_ERROR_STOP=1",
            "-qtAc",
            text,
        ]
        done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    async def usage(self) -> tuple[int, int]:
        """Used bytes and all bytes of the filesystem, as df reports them in the pod."""
        asked = ("exec", "postgres-0", "--", "df", "--block-size=1", "--output=used,size", "/data")
        used, size = (await self.kubectl(*asked)).split()[-2:]
        return int(used), int(size)

    async def fill(self, share: float = 0.55) -> None:
        """Insert rows until this share of the volume is used."""
        while (missing := await self._missing(share)) > 0:
            self.insert(min(missing // ROW_BYTES + 1, 1000))

    async def _missing(self, share: float) -> int:
        used, size = await self.usage()
        return int(share * size) - used

    def insert(self, rows: int) -> None:
        self.query(ROW.format(rows=rows))
        self.inserts += rows

    @contextmanager
    def steadily_written(self) -> Iterator[None]:
        """Rows are inserted all the time, whatever the volume is like; at the end, none of them has failed."""
        over = threading.Event()

        def write() -> None:
            while not over.wait(1):
                self.insert(ROWS_A_SECOND)

        with ThreadPoolExecutor(1) as pool:
            writing = pool.submit(write)
            try:
                yield
            finally:
                over.set()
            writing.result()

    async def state(self, rule: str) -> str:
        found = (await self.json("autopilotruleobjects", "-l", f"rule={rule}"))["items"]
        return str((found[0].get("status") or {}).get("state", "")) if found else ""

    async def reaches(self, rule: str, state: str) -> None:
        async def look() -> bool:
            return await self.state(rule) == state

        await eventually(look, seconds=PATIENCE)

    async def actions(self) -> list[Json]:
        found = (await self.json("applicationactions"))["items"]
        return sorted(found, key=lambda each: each["spec"].get("trigger", 0))

    async def sizes(self) -> tuple[str, str]:
        """What the claim requests, and what it has."""
        claim = await self.json("pvc", "data-postgres-0")
        return claim["spec"]["resources"]["requests"]["storage"], claim["status"]["capacity"]["storage"]

    async def has(self, size: str) -> None:
        async def look() -> bool:
            return await self.sizes() == (size, size)

        await eventually(look, seconds=PATIENCE)

    async def grows_to_the_limit(self) -> None:
        """The example's rule: while it is written to, the volume grows in three steps to 1Gi, and the server goes on."""
        began = self.query(STARTED)
        await self.reaches(RULE, "Normal")
        with self.steadily_written():
            await self.reaches(RULE, "ActionsDeclined")
        assert await self.sizes() == ("1Gi", "1Gi")
        done = [each for each in await self.actions() if each["status"]["phase"] == "Succeeded"]
        assert [
            (each["status"]["before"]["size"], each["spec"]["target"]["to"], each["status"]["after"]["size"])
            for each in done
        ] == [("320Mi", "480Mi", "480Mi"), ("480Mi", "720Mi", "720Mi"), ("720Mi", "1Gi", "1Gi")]
        for each in done:
            (cause,) = each["spec"]["cause"]
            assert float(cause["value"]) > 50
            assert (cause["operator"], cause["threshold"]) == ("Gt", ["50"])
        _, size = await self.usage()
        assert size > 900 * MI
        assert self.query(STARTED) == began
        assert int(self.query("select count(*) from filler")) == self.inserts

    async def question(self) -> Json:
        """The only ActionApproval."""
        (found,) = (await self.json("actionapprovals"))["items"]
        asked: Json = found
        return asked

    async def decide(self, state: str) -> None:
        name = (await self.question())["metadata"]["name"]
        decision = json.dumps({"spec": {"approvalState": state}})
        await self.kubectl("patch", "actionapproval", name, "--type=merge", "-p", decision)

    async def transitions(self, rule: str) -> Counter[str]:
        """How often each transition was reported of a rule."""
        got = await self.plane.kubectl("get", "events", "-n", "default", "-o", "json")
        found: Counter[str] = Counter()
        for event in json.loads(got.ok())["items"]:
            if event["involvedObject"]["name"] == rule and event["reason"] == "Transition":
                found[event["message"].partition("transition from ")[2]] += event.get("count") or 1
        return found


def rule(name: str, namespace: str, **spec: Any) -> Json:
    """The example, for the volumes of a namespace, and quicker."""
    made: Json = yaml.safe_load((EXAMPLES / "postgres-rule.yaml").read_text())
    made["metadata"]["name"] = name
    made["spec"] |= {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        "pollInterval": 1,
        "actionsCoolDownPeriod": 1,
        **spec,
    }
    made["spec"]["conditions"]["for"] = 1
    return made
