"""``pilothouse up``: a whole control plane with a node in it, on one machine, looked after until told to stop.

    await run(UpOptions(data=Path("data"), ...), say=print, welcome=print_welcome)

API server, controller-manager and node are processes of their own (``roles``). The node is started together with the server,
loads what it needs and then waits for word that the server answers. The first start makes the authority, the
kubeconfigs and the default storage classes; each later one goes on with what is there, and the node takes up the pods that
still run.

Stopping goes the other way round: the node first, with its pods unless they are to be kept, then the manager, which
gives up its lease, then the server.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypedDict

from pilothouse.app import memory_tuning, up_state
from pilothouse.app.child_liveness import Liveness
from pilothouse.app.data_folder import DataFolder
from pilothouse.app.default_classes import make_default_classes
from pilothouse.app.graceful_shutdown import ShutdownRequest
from pilothouse.app.inherited_sockets import bind_sockets, flags_of
from pilothouse.app.options import StartError
from pilothouse.app.plane_registry import registered
from pilothouse.app.processes import PAGES, ProcessFailed, ProcessSpec, ProcessSupervisor, truncate_log
from pilothouse.app.up_state import ProcessReport, UpReport
from pilothouse.client.access import AccessError
from pilothouse.client.single_request import RequestFailed

READY_SECONDS = 60.0
"""How long everything may take to be there."""
LEFTOVERS_SECONDS = 30.0
"""How long what a killed ``up`` left behind may take to end."""
LOGS_SECONDS = 60.0
"""How often somebody looks whether a log has grown too large."""
GRACE = {"node": 150.0, "controller-manager": 20.0, "apiserver": 40.0}
"""Seconds to stop in, in order of stopping. Pods have their own time to end, within the node's."""

SLOW_SECONDS = 3.0
"""A role that takes longer than this to stop is named."""

ADMISSION = Path(__file__).with_name("up_admission.yaml")
"""What the server admits, unless told otherwise."""

Say = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class UpOptions:
    """What the command's flags come to."""

    data: Path
    host: str = "127.0.0.1"
    port: int = 6443
    node: str
    keep: bool = False
    """Leave pods running when we stop."""
    node_flags: tuple[str, ...] = ()
    server_flags: tuple[str, ...] = ()
    manager_flags: tuple[str, ...] = ()
    liveness: Liveness = field(default_factory=Liveness)
    """When a process that does not answer is started again."""
    began: float = field(default_factory=time.time)
    """When the process was started."""


async def run(options: UpOptions, *, say: Say, welcome: Callable[[UpReport, DataFolder], None]) -> None:
    """Until SIGTERM or SIGINT; SIGUSR1 is the same, and leaves pods running. Raises ``StartError``."""
    loop = asyncio.get_running_loop()
    stop = ShutdownRequest.on_signals(loop)
    wishes = _Wishes(options.keep)

    def leave_pods() -> None:
        wishes.keep = True
        stop.asked.set()

    # All of them from the start: whoever sees that we have the folder may ask us to stop.
    loop.add_signal_handler(signal.SIGUSR1, leave_pods)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        # The terminal is closed; whoever wants to outlive it says so with nohup.
        loop.add_signal_handler(signal.SIGHUP, stop.asked.set)
    folder = DataFolder.open(options.data)
    holding = up_state.held(folder.path, keep=options.keep, patience=LEFTOVERS_SECONDS, stop=stop.asked)
    try:
        async with holding as lock:
            try:
                with registered(folder.path, "up", say):
                    await _Up(options, folder, lock, say, wishes).run(stop, welcome)
            finally:
                up_state.remove(folder.path)
    except up_state.ToldToStop:
        say(f"stopped before {folder.path} was free")


@dataclass
class _Wishes:
    """What is to become of the pods when we stop."""

    keep: bool


class _Common(TypedDict):
    """What is the same for all roles."""

    inherits: tuple[int, ...]
    liveness: Liveness


class _Up:
    """The roles of one control plane, and what is told of them."""

    def __init__(self, options: UpOptions, folder: DataFolder, lock: int, say: Say, wishes: _Wishes) -> None:
        self._options = options
        self._folder = folder
        self._say = say
        self._wishes = wishes
        self._port = options.port
        self._url = ""
        self._ready = 0.0
        self._sockets = {
            # Held for as long as we run, so that nobody else can have them while a role is started again.
            "apiserver": _bound("apiserver", options.host, options.port),
            "node": _bound("node", options.host, 0, family=_family(options.host))[:1],
        }
        self._store = socket.socketpair(type=socket.SOCK_SEQPACKET)
        """Where the node keeps the listening sockets of services while it is started again."""
        common: _Common = {"inherits": (lock,), "liveness": options.liveness}
        roles = (
            ProcessSpec("apiserver", self._server_argv, **self._with_sockets("apiserver", common)),
            # Not before the server answers: until then the other two need the processor, and nobody needs decisions.
            ProcessSpec("controller-manager", self._manager_argv, waits=True, loads=False, **common),
            # One that wakes up after all leaves its pods running, for the next to take up.
            ProcessSpec(
                "node",
                self._node_argv,
                waits=True,
                asked_to_end=signal.SIGUSR1,
                **self._with_sockets("node", common),
            ),
        )
        self._keepers = {
            role.name: ProcessSupervisor(role, self._log(role.name), say, self._write_report)
            for role in roles
        }

    async def run(self, stop: ShutdownRequest, welcome: Callable[[UpReport, DataFolder], None]) -> None:
        living = [asyncio.create_task(keeper.run(), name=name) for name, keeper in self._keepers.items()]
        asked = asyncio.create_task(stop.asked.wait())
        starting = asyncio.create_task(self._start())
        tending = asyncio.create_task(self._tend_logs())
        try:
            await asyncio.wait((starting, asked, *living), return_when=asyncio.FIRST_COMPLETED)
            if starting.done() and not starting.cancelled():
                starting.result()
                welcome(self._report(), self._folder)
                await asyncio.wait((asked, *living), return_when=asyncio.FIRST_COMPLETED)
        except (ProcessFailed, TimeoutError, RequestFailed, AccessError) as problem:
            raise StartError(str(problem)) from None
        finally:
            starting.cancel()
            tending.cancel()
            await self._stop(stop)
            ended = await asyncio.gather(*living, return_exceptions=True)
            asked.cancel()
            if stop.asked.is_set() and not self._wishes.keep and not self._keepers["node"].ended_well:
                await self._end_pods(stop)
            for each in (*self._sockets["apiserver"], *self._sockets["node"], *self._store):
                each.close()
        for end in ended:
            if end is not None:
                raise StartError(str(end)) if isinstance(end, ProcessFailed) else end

    async def _start(self) -> None:
        try:
            async with asyncio.timeout(READY_SECONDS):
                line = await self._keepers["apiserver"].ready()
                self._url = line.partition(" is ready at ")[2].partition(" ")[0]
                # A server that is started again is found where it was.
                self._port = int(self._url.rpartition(":")[2])
                for name in ("controller-manager", "node"):
                    self._keepers[name].begin()
                await asyncio.to_thread(make_default_classes, self._folder)
                await self._keepers["controller-manager"].ready()
                await self._keepers["node"].ready()
        except TimeoutError:
            late = (
                ", ".join(name for name, each in self._keepers.items() if not each.health.lines) or "the node"
            )
            raise TimeoutError(
                f"{late} was not ready in {READY_SECONDS:g} s; {self._log('node').parent} has what was said"
            ) from None
        self._ready = time.time() - self._options.began
        memory_tuning.settle()
        self._write_report()

    async def _tend_logs(self) -> None:
        while True:
            for name in self._keepers:
                try:
                    truncate_log(self._log(name))
                except OSError as problem:
                    self._say(f"{self._log(name)} can't be put aside: {problem.strerror}")
            await asyncio.sleep(LOGS_SECONDS)

    async def _stop(self, stop: ShutdownRequest) -> None:
        hurrying = asyncio.create_task(self._hurry(stop))
        telling = asyncio.create_task(self._report_stop()) if stop.asked.is_set() else None
        try:
            for name, grace in GRACE.items():
                number = signal.SIGUSR1 if name == "node" and self._wishes.keep else signal.SIGTERM
                await self._keepers[name].stop(grace, number)
        finally:
            hurrying.cancel()
            if telling is not None:
                telling.cancel()

    async def _report_stop(self) -> None:
        """Say what is waited for: the pods, then a role that takes its time."""
        # Imported here, as below.
        from pilothouse.app.stop_progress import LOOK_SECONDS, StopProgress

        progress = StopProgress(self._folder.node, self._say, hint="; Ctrl-C again ends them at once")
        patience = dict.fromkeys(self._keepers, SLOW_SECONDS)
        while True:
            if self._wishes.keep or not progress.look(time.monotonic()):
                for name, keeper in self._keepers.items():
                    if keeper.health.state == "stopping" and name in patience:
                        patience[name] -= LOOK_SECONDS
                        if patience[name] <= 0:
                            self._say(f"waiting for {name} to end, {GRACE[name]:g} s at most")
                            del patience[name]
            await asyncio.sleep(LOOK_SECONDS)

    async def _end_pods(self, stop: ShutdownRequest) -> None:
        """What the node would have done, had it not been killed, or stopped before it had begun."""
        # Imported here: it is seldom needed, and is not to take memory for as long as we run.
        from pilothouse.app.pod_shutdown import end_all

        if ended := await end_all(self._folder.node, stop):
            self._say(f"the node could not end its pods any more; {ended} containers were stopped")

    async def _hurry(self, stop: ShutdownRequest) -> None:
        """Pass on that somebody is in a hurry."""
        await stop.hurried.wait()
        for keeper in self._keepers.values():
            if keeper.health.state == "stopping":
                keeper.hurry()

    # The commands

    def _server_argv(self) -> tuple[str, ...]:
        host = f"[{self._options.host}]" if ":" in self._options.host else self._options.host
        listen = f"{host}:{self._port}"
        flags = ["--data", str(self._folder.path), "--listen", listen, "--local-node", self._options.node]
        if not self._keepers["apiserver"].health.starts:
            # The folder is ours, so no node runs on it. When the server alone is started again, the node goes on meanwhile.
            flags.append("--local-node-absent")
        return command_of(
            "apiserver", *flags, *self._options.server_flags, *flags_of(self._sockets["apiserver"])
        )

    def _manager_argv(self) -> tuple[str, ...]:
        # Nobody else is there to take over: one that crashed is followed by the next as soon as its lease allows.
        timing = ("lease-duration=5s", "renew-deadline=4s", "retry-period=1s")
        flags = (f"--leader-elect-{each}" for each in timing)
        kubeconfig = ("--kubeconfig", str(self._folder.manager_kubeconfig))
        return command_of("controller-manager", *kubeconfig, *flags, *self._options.manager_flags)

    def _node_argv(self) -> tuple[str, ...]:
        flags = ("--kubeconfig", str(self._folder.node_kubeconfig), "--data", str(self._folder.path))
        return command_of(
            "node",
            *flags,
            *("--name", self._options.node, "--stop-pods"),
            *self._options.node_flags,
            *flags_of(self._sockets["node"]),
            *(word for each in self._store for word in ("--socket-store-fd", str(each.fileno()))),
        )

    def _with_sockets(self, role: str, common: _Common) -> _Common:
        """What a role has in common with the others, and its sockets."""
        held = (*self._sockets[role], *(self._store if role == "node" else ()))
        own = (each.fileno() for each in held)
        return {"inherits": (*common["inherits"], *own), "liveness": common["liveness"]}

    # What others see

    def _log(self, role: str) -> Path:
        return self._folder.path / "logs" / f"{role}.log"

    def _write_report(self) -> None:
        try:
            up_state.write(self._folder.path, self._report())
        except OSError as problem:
            # On a full disk, say: `status` then shows what was so before, and everything goes on running.
            self._say(f"how things are can't be written down in {self._folder.path}: {problem.strerror}")

    def _report(self) -> UpReport:
        healths = [keeper.health for keeper in self._keepers.values()]
        return UpReport(
            pid=os.getpid(),
            since=self._options.began,
            url=self._url,
            node=self._options.node,
            keep=self._wishes.keep,
            ready=self._ready,
            roles=tuple(
                ProcessReport(each.name, each.state, each.pid, each.since, each.starts, each.last_end)
                for each in healths
            ),
            manager=self._manager_address(),
        )

    def _manager_address(self) -> str:
        said = (line.partition(PAGES)[2] for line in self._keepers["controller-manager"].health.lines)
        return next(filter(None, said), "").removeprefix("http://")


def _bound(role: str, host: str, port: int, *, family: int = socket.AF_UNSPEC) -> list[socket.socket]:
    """Raises ``StartError``."""
    try:
        return bind_sockets(host, port, family=family)
    except StartError as problem:
        raise StartError(f"{role}: {problem}") from None


def _family(host: str) -> int:
    """That of the one address that a node is reached at."""
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def command_of(role: str, *flags: str) -> tuple[str, ...]:
    """What starts a role."""
    # -P: no module is taken from the folder that we happen to be in, which may be anybody's.
    return (sys.executable, "-P", "-m", "pilothouse", role, "--lifeline", "{lifeline}", *flags)
