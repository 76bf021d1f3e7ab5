"""A machine that is updated: its program and its update agent are real; the test plays the leader.

async with updated_machine(tmp_path) as machine:
    machine.serve("v2.0.0", program("v2.0.0"))
    await machine.order("v2.0.0")
    await machine.signal()
    await machine.until("Completed")
    machine.steps                      # every step, in order
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import random
import signal as signals
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
from tests.kit.loopback import loopback
from tests.kit.managed_programs import program
from tests.kit.payload_server import PayloadFile, PayloadServer
from tests.kit.waiting import eventually

from pilothouse.api.k0s.signals import (
    APPLYING,
    COMPLETED,
    CORDONING,
    DATA_ANNOTATION,
    UNCORDONING,
    VERSION_ANNOTATION,
    Signal,
    SignalCommand,
    SignalError,
    SignalUpdate,
    read_signal,
    report_problem,
)
from pilothouse.api.kind_names import ControlNode, KindName, Node, Plan
from pilothouse.api.objects import Object, Tree
from pilothouse.base.backoff import Backoff
from pilothouse.base.clock import SystemClock
from pilothouse.client.api import Api
from pilothouse.client.informer import Informer
from pilothouse.client.object_cache import CacheChange
from pilothouse.client.transport import (
    ClientRequest,
    ClientResponse,
    NotSent,
    ResponseStreamReader,
    Transport,
)
from pilothouse.node.updating.update_agent import UpdateAgent, UpdateAgentSettings
from pilothouse.node.updating.update_journal import UpdateJournal
from pilothouse.node.updating.update_profile import Mode, UpdateProfile, read_profile
from pilothouse.supervise import containers
from pilothouse.supervise.containers import Container
from pilothouse.updates.downloads import Downloads, DownloadSettings

NAME = "m1"
PLATFORM = "linux-amd64"
QUICK = DownloadSettings(tries=3, backoff=Backoff(first=0.01, factor=1.0, longest=0.01), stall=5.0)


class WatchedTransport:
    """Notes the requests, lets a test act before one of them, and refuses the steps that a server refuses a node."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self.calls: list[ClientRequest] = []
        self.statuses: list[int] = []
        self.before: dict[str, Callable[[], Awaitable[None]]] = {}
        """What happens before the first request with a step in it."""
        self.lost = False
        """Whether the server can't be reached."""

    async def request(self, call: ClientRequest) -> ClientResponse:
        self.calls.append(call)
        for step in tuple(self.before):
            if f'\\"{step}\\"'.encode() in call.body:
                await self.before.pop(step)()
        self._check_reachable()
        answer = await self._refusal(call) or await self._transport.request(call)
        self.statuses.append(answer.status)
        return answer

    async def _refusal(self, call: ClientRequest) -> ClientResponse | None:
        """The answer to a report that is not the machine's to make; None to any other request."""
        fields = msgspec.json.decode(call.body) if call.method == "PATCH" else {}
        if DATA_ANNOTATION not in (annotations := (fields.get("metadata") or {}).get("annotations") or {}):
            return None
        answer = await self._transport.request(ClientRequest("GET", call.path))
        earlier = msgspec.json.decode(answer.body).get("metadata", {})
        if earlier.get("resourceVersion") != fields["metadata"].get("resourceVersion"):
            return None
        before = earlier.get("annotations") or {}
        if not (problem := report_problem(before, {**before, **annotations})):
            return None
        status = {
            "kind": "Status",
            "status": "Failure",
            "reason": "Forbidden",
            "code": 403,
            "message": problem,
        }
        return ClientResponse(403, {"Content-Type": "application/json"}, msgspec.json.encode(status))

    def stream(self, call: ClientRequest) -> AbstractAsyncContextManager[ResponseStreamReader]:
        self._check_reachable()
        return self._transport.stream(call)

    def _check_reachable(self) -> None:
        if self.lost:
            raise NotSent("the API server can't be reached")


class UpdatedMachine:
    def __init__(self, transport: Transport, folder: Path, server: PayloadServer, mode: Mode) -> None:
        self.folder = folder
        self.server = server
        self.mode = mode
        self.api = Api(transport, random.Random(1), manager="leader")
        self.transport = WatchedTransport(transport)
        self.path = folder / "bin" / "db"
        self.images = folder / "images"
        self.data = folder / "updates"
        self.port = _free_port()
        self.downloads = QUICK
        self.steps: list[str] = []
        """The steps of the signal, as they were written."""
        self.holds: set[str] = set()
        """Steps at which the leader does nothing."""
        self.removes_at = ""
        """The step at which somebody removes the signal."""
        self._task: asyncio.Task[None] | None = None
        self._leader: asyncio.Task[None] | None = None

    @property
    def noun(self) -> KindName:
        """The kind of object with the signal of the program."""
        return Node if self.mode == "worker" else ControlNode

    def profile_tree(self) -> Tree:
        return {
            "path": str(self.path),
            "version": ["{path}", "ask", str(self.port)],
            "health": f"http://127.0.0.1:{self.port}/readyz",
            "run": ["{path}", "serve", str(self.port)],
            "images": str(self.images),
            "healthFor": "100ms",
            "healthWithin": "3s",
            "stopGrace": "5s",
        }

    def profile(self, **changes: Any) -> UpdateProfile:
        return read_profile(self.profile_tree() | changes)

    def install(self, content: bytes) -> None:
        self.path.parent.mkdir(exist_ok=True)
        self.path.write_bytes(content)
        self.path.chmod(0o755)

    def serve(self, version: str, content: bytes, **file: Any) -> None:
        """Offer a payload for download."""
        self.server.files[f"/{version}"] = PayloadFile(content, **file)

    def start_agent(self, **profile: Any) -> None:
        settings = UpdateAgentSettings(
            name=NAME,
            data=self.data,
            library=self.folder / "library",
            profile=self.profile(**profile),
            mode=self.mode,
            api_port=7443,
        )
        source = Downloads(self.downloads, SystemClock())
        api = Api(self.transport, random.Random(2), manager="pilothouse-node")
        agent = UpdateAgent(api, settings, source, SystemClock(), random.Random(3))
        self._task = asyncio.create_task(agent.run())

    async def stop_agent(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def create_objects(self) -> None:
        labels = {
            "kubernetes.io/os": "linux",
            "kubernetes.io/arch": "amd64",
            "kubernetes.io/hostname": NAME,
        }
        for noun in self._nouns():
            await self.api.create(noun, {**_kind(noun), "metadata": {"name": NAME, "labels": labels}})

    def _nouns(self) -> tuple[KindName, ...]:
        return {"worker": (Node,), "controller": (ControlNode,)}.get(self.mode, (Node, ControlNode))

    async def delete_objects(self) -> None:
        for noun in self._nouns():
            await self.api.delete(noun, NAME)
        await self.api.delete(Plan, "autopilot")

    async def order(
        self,
        version: str,
        *,
        kind: str = "k0supdate",
        named: str = NAME,
        state: str = "SchedulableWait",
        target: str = "SignalSent",
        **fields: Any,
    ) -> Object:
        """A plan that runs, and says that it is the machine's turn. ``fields`` are those of the platform, or
        ``forceupdate``."""
        resource = {"url": self.server.url(f"/{version}")}
        if isinstance(file := self.server.files.get(f"/{version}"), PayloadFile):
            resource["sha256"] = hashlib.sha256(file.content).hexdigest()
        resource |= {name: fields.pop(name) for name in ("url", "sha256") if name in fields}
        if not resource.get("sha256"):
            resource.pop("sha256", None)
        update: Tree = {"version": version, "platforms": {PLATFORM: resource}, **fields}
        if kind == "k0supdate":
            update["targets"] = {}
        spec = {"id": "id1", "commands": [{kind: update}]}
        created = {
            "id": "id1",
            "commands": [{kind: update | {"platforms": {PLATFORM: self._valid(resource)}}}],
        }
        if await self.api.find(Plan, "autopilot") is not None:
            await self.api.delete(Plan, "autopilot")
        plan = await self.api.create(
            Plan, {**_kind(Plan), "metadata": {"name": "autopilot"}, "spec": created}
        )
        role = "workers" if self.mode == "worker" or kind == "airgapupdate" else "controllers"
        status = {
            "state": state,
            "runGeneration": plan.generation,
            "spec": spec,
            "commands": [{"id": 0, "state": state, kind: {role: [{"name": named, "state": target}]}}],
        }
        return await self.patch_plan(status)

    def _valid(self, resource: dict[str, str]) -> dict[str, str]:
        """A resource that the API takes; the status may have any."""
        valid = {name: text for name, text in resource.items() if name != "sha256" or len(text) == 64}
        return valid if valid["url"].startswith("http") else {"url": self.server.url("/")}

    async def patch_plan(self, status: Tree) -> Object:
        return await self.api.patch(Plan, "autopilot", "", {"status": status}, subresource="status")

    async def signal(
        self,
        *,
        kind: str = "k0supdate",
        noun: KindName | None = None,
        plan: Object | None = None,
        **fields: Any,
    ) -> None:
        """Signal the machine, as the leader does."""
        plan = plan or await self.api.get(Plan, "autopilot")
        update = SignalUpdate("http://forged.invalid/", "v0.0.0")
        found = Signal(
            "id1",
            "2026-01-01T00:00:00Z",
            SignalCommand(0, **{kind: update}),
            plan_uid=plan.uid,
            generation=plan.generation,
            **fields,
        )
        noun = noun or self.noun
        await self.api.patch(noun, NAME, "", {"metadata": {"annotations": found.annotations()}})

    async def read_signal(self, noun: KindName | None = None) -> Signal:
        found = read_signal((await self.api.get(noun or self.noun, NAME)).annotations)
        assert found is not None
        return found

    async def until(self, *steps: str, noun: KindName | None = None, seconds: float = 120.0) -> Signal:
        """The signal once it is at one of these steps."""

        async def reached() -> Signal | None:
            found = await self.read_signal(noun)
            return found if found.step in steps else None

        try:
            return await eventually(reached, seconds=seconds)
        except AssertionError:
            raise AssertionError(f"not at {steps}: {await self.read_signal(noun)}") from None

    async def lead(self) -> None:
        """Play the leader: drain and uncordon at once, and note every step."""
        informer = Informer(self.api, self.noun, random.Random(4), SystemClock())
        queue: asyncio.Queue[Object] = asyncio.Queue()

        def note(change: CacheChange) -> None:
            if change.new is not None:
                queue.put_nowait(change.new)

        informer.subscribe(note)
        async with asyncio.TaskGroup() as group:
            group.create_task(informer.run())
            while True:
                machine = await queue.get()
                try:
                    found = read_signal(machine.annotations)
                except SignalError:
                    continue
                if found is None or (self.steps and self.steps[-1] == found.step):
                    continue
                self.steps.append(found.step)
                await self._move(found)

    async def noted(self, step: str) -> list[str]:
        """The steps since the last signal, once the leader has seen this one."""

        async def seen() -> list[str] | None:
            begins = len(self.steps) - self.steps[::-1].index("") if "" in self.steps else len(self.steps)
            steps = self.steps[begins:]
            return steps if step in steps else None

        return await eventually(seen)

    async def move(self, step: str) -> None:
        """Move the signal to a step, as the leader does."""
        moved = (await self.read_signal()).advanced(step, "2026-01-01T00:00:00Z")
        await self.annotate(moved.annotations())

    async def annotate(self, annotations: Mapping[str, str | None]) -> None:
        await self.api.patch(self.noun, NAME, "", {"metadata": {"annotations": dict(annotations)}})

    async def until_settled(self) -> None:
        """Wait until the journal has the end of a turn."""

        async def settled() -> bool:
            turn = self.journal().turn
            return turn is not None and not turn.is_open

        await eventually(settled)

    def plan_reads(self) -> int:
        """How often the agent has read the plan."""
        return sum(call.method == "GET" and "/plans/" in call.path for call in self.transport.calls)

    def digest(self, version: str) -> str:
        file = self.server.files[f"/{version}"]
        assert isinstance(file, PayloadFile)
        return hashlib.sha256(file.content).hexdigest()

    def kill(self, pids: Path) -> None:
        """Kill the process whose number is in a file."""
        os.kill(int(pids.read_text()), signals.SIGKILL)

    async def stop_program(self) -> None:
        while (left := await self.running()) is not None:
            await left.stop(signals.SIGKILL, 0)

    async def _move(self, found: Signal) -> None:
        if found.step and found.step == self.removes_at:
            await self.annotate({VERSION_ANNOTATION: None, DATA_ANNOTATION: None})
            return
        following = {CORDONING: APPLYING, UNCORDONING: COMPLETED}.get(found.step)
        if following is not None and found.step not in self.holds:
            assert found.status is not None
            moved = found.advanced(following, found.status.timestamp)
            await self.api.patch(self.noun, NAME, "", {"metadata": {"annotations": moved.annotations()}})

    def start_leader(self) -> None:
        self._leader = asyncio.create_task(self.lead())

    async def stop_leader(self) -> None:
        if self._leader is not None:
            self._leader.cancel()
            await asyncio.gather(self._leader, return_exceptions=True)

    async def running(self) -> Container | None:
        """The process of the program."""
        for each in sorted((self.data / "program").glob("[0-9]*")):
            if isinstance(found := await containers.adopt(each), Container):
                return found
        return None

    async def answers(self, version: str) -> None:
        """Wait until the running program reports a version."""
        last = ""
        for _ in range(500):
            last = await self.asked()
            if last == version:
                return
            await asyncio.sleep(0.02)
        raise AssertionError(f"the program reports {last!r}, not {version!r}")

    async def asked(self) -> str:
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        except OSError:
            return ""
        writer.write(b"GET /version HTTP/1.1\r\n\r\n")
        try:
            answer = await reader.read()
        except OSError:
            return ""
        finally:
            writer.close()
        return answer.partition(b"\r\n\r\n")[2].decode()

    def journal(self) -> UpdateJournal:
        return UpdateJournal(self.data / "program.json")

    def left_beside(self) -> list[str]:
        """Files in the folder of the program, except itself and what is kept."""
        known = {self.path.name, f".{self.path.name}.kept"}
        return sorted(each.name for each in self.path.parent.iterdir() if each.name not in known)

    async def close(self) -> None:
        await self.stop_agent()
        await self.stop_leader()
        await self.stop_program()


@asynccontextmanager
async def updated_machine(
    folder: Path, *, mode: Mode = "worker", agent: bool = True, installed: bytes | None = None, **profile: Any
) -> AsyncIterator[UpdatedMachine]:
    """A machine that runs v1.0.0, with an agent and a leader."""
    async with loopback() as transport:
        with PayloadServer.running() as server:
            machine = UpdatedMachine(transport, folder, server, mode)
            machine.install(installed or program("v1.0.0"))
            await machine.create_objects()
            machine.start_leader()
            try:
                if agent:
                    machine.start_agent(**profile)
                    if installed is None and "restart" not in profile:
                        await machine.answers("v1.0.0")
                yield machine
            finally:
                await machine.close()


def _kind(noun: KindName) -> Tree:
    return {"apiVersion": noun.api_version, "kind": noun.kind}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
