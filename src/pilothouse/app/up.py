"""``pilothouse up``: a whole control plane with a node, on one machine, supervised until it is stopped.

    await run(UpOptions(data=Path("data"), ...), say=print, welcome=print_welcome)

API server, controller-manager and node are child processes (``processes``). The node is started together with
the server, loads its modules and then waits until the server answers. They stop in reverse order: the node
first, with its pods unless they are to be kept, then the manager, which releases its lease, then the server.
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
from pilothouse.app.default_classes import create_default_classes
from pilothouse.app.graceful_shutdown import ShutdownRequest
from pilothouse.app.inherited_sockets import bind_sockets, flags_of
from pilothouse.app.options import StartError
from pilothouse.app.plane_registry import registered
from pilothouse.app.processes import (
    PAGES,
    WHY_NOT_READY,
    ProcessFailed,
    ProcessSpec,
    ProcessSupervisor,
    truncate_log,
)
from pilothouse.app.up_state import ProcessReport, UpReport
from pilothouse.client.access import AccessError
from pilothouse.client.single_request import RequestFailed

READY_SECONDS = 60.0
"""How long the start of all processes may take."""
LEFTOVERS_SECONDS = 30.0
"""How long the processes that a killed ``up`` left behind may take to end."""
LOGS_SECONDS = 60.0
"""How often the sizes of the logs are checked."""
GRACE = {"node": 150.0, "controller-manager": 20.0, "apiserver": 40.0}
"""Seconds to stop, in the order of stopping. The node's include the grace of its pods."""

SLOW_SECONDS = 3.0
"""A process that takes longer than this to stop is reported."""

ADMISSION = Path(__file__).with_name("up_admission.yaml")
"""The admission configuration of the server, unless a flag gives another."""

Say = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class UpOptions:
    data: Path
    host: str = "127.0.0.1"
    port: int = 6443
    node: str
    keep: bool = False
    """Keep pods running after the stop."""
    node_flags: tuple[str, ...] = ()
    server_flags: tuple[str, ...] = ()
    manager_flags: tuple[str, ...] = ()
    liveness: Liveness = field(default_factory=Liveness)
    """When a process that does not answer is restarted."""
    began: float = field(default_factory=time.time)
    """When the process was started."""


async def run(options: UpOptions, *, say: Say, welcome: Callable[[UpReport, DataFolder], None]) -> None:
    """Until SIGTERM or SIGINT; SIGUSR1 is the same, and leaves pods running. Raises ``StartError``."""
    loop = asyncio.get_running_loop()
    stop = ShutdownRequest.on_signals(loop)
    pods = _PodPolicy(options.keep)

    def keep_pods() -> None:
        pods.keep = True
        stop.asked.set()

    # Installed first: `down` may send a signal as soon as this process holds the folder.
    loop.add_signal_handler(signal.SIGUSR1, keep_pods)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        # The terminal is closed; under nohup the signal is ignored.
        loop.add_signal_handler(signal.SIGHUP, stop.asked.set)
    folder = DataFolder.open(options.data)
    locking = up_state.held(folder.path, keep=options.keep, patience=LEFTOVERS_SECONDS, stop=stop.asked)
    try:
        async with locking as lock:
            try:
                with registered(folder.path, "up", say):
                    await _Up(options, folder, lock, say, pods).run(stop, welcome)
            finally:
                up_state.remove(folder.path)
    except up_state.ToldToStop:
        say(f"stopped while waiting for the lock of {folder.path}")


@dataclass
class _PodPolicy:
    keep: bool


class _Common(TypedDict):
    inherits: tuple[int, ...]
    liveness: Liveness


class _Up:
    """The processes of one control plane, and the report about them."""

    def __init__(self, options: UpOptions, folder: DataFolder, lock: int, say: Say, pods: _PodPolicy) -> None:
        self._options = options
        self._folder = folder
        self._say = say
        self._pods = pods
        self._url = ""
        self._ready = 0.0
        self._sockets = {
            # Held open, so that no other program can bind them while a process is restarted.
            "apiserver": _bound("apiserver", options.host, options.port),
            "node": _bound("node", options.host, 0, family=_family(options.host))[:1],
        }
        self._port: int = self._sockets["apiserver"][0].getsockname()[1]
        self._store = socket.socketpair(type=socket.SOCK_SEQPACKET)
        """Keeps the listening sockets of services while the node is restarted."""
        common: _Common = {"inherits": (lock,), "liveness": options.liveness}
        roles = (
            ProcessSpec("apiserver", self._server_argv, **self._with_sockets("apiserver", common)),
            # Not before the server answers: until then the other two need the CPU.
            ProcessSpec("controller-manager", self._manager_argv, waits=True, loads=False, **common),
            # A hung node that wakes up must leave its pods running, for the next one to adopt.
            ProcessSpec(
                "node",
                self._node_argv,
                waits=True,
                hung_signal=signal.SIGUSR1,
                **self._with_sockets("node", common),
            ),
        )
        self._supervisors = {
            role.name: ProcessSupervisor(role, self._log(role.name), say, self._write_report)
            for role in roles
        }

    async def run(self, stop: ShutdownRequest, welcome: Callable[[UpReport, DataFolder], None]) -> None:
        running = [
            asyncio.create_task(supervisor.run(), name=name) for name, supervisor in self._supervisors.items()
        ]
        asked = asyncio.create_task(stop.asked.wait())
        starting = asyncio.create_task(self._start())
        rotating = asyncio.create_task(self._rotate_logs())
        try:
            await asyncio.wait((starting, asked, *running), return_when=asyncio.FIRST_COMPLETED)
            if starting.done() and not starting.cancelled():
                starting.result()
                welcome(self._report(), self._folder)
                await asyncio.wait((asked, *running), return_when=asyncio.FIRST_COMPLETED)
        except (ProcessFailed, TimeoutError, RequestFailed, AccessError) as problem:
            raise StartError(str(problem)) from None
        finally:
            starting.cancel()
            rotating.cancel()
            await self._stop(stop)
            ended = await asyncio.gather(*running, return_exceptions=True)
            asked.cancel()
            if stop.asked.is_set() and not self._pods.keep and not self._supervisors["node"].ended_well:
                await self._end_pods(stop)
            for each in (*self._sockets["apiserver"], *self._sockets["node"], *self._store):
                each.close()
        for end in ended:
            if end is not None:
                raise StartError(str(end)) if isinstance(end, ProcessFailed) else end

    async def _start(self) -> None:
        try:
            async with asyncio.timeout(READY_SECONDS):
                line = await self._supervisors["apiserver"].ready()
                self._url = line.partition(" is ready at ")[2].partition(" ")[0]
                for name in ("controller-manager", "node"):
                    self._supervisors[name].begin()
                await asyncio.to_thread(create_default_classes, self._folder)
                await self._supervisors["controller-manager"].ready()
                await self._supervisors["node"].ready()
        except TimeoutError:
            late = [name for name, each in self._supervisors.items() if not each.health.lines] or ["the node"]
            raise TimeoutError(
                f"{', '.join(late)} was not ready after {READY_SECONDS:g} s; "
                f"see the logs in {self._log('node').parent}"
            ) from None
        self._ready = time.time() - self._options.began
        memory_tuning.settle()
        self._write_report()

    async def _rotate_logs(self) -> None:
        while True:
            for name in self._supervisors:
                try:
                    truncate_log(self._log(name))
                except OSError as problem:
                    self._say(f"can't rotate {self._log(name)}: {problem.strerror}")
            await asyncio.sleep(LOGS_SECONDS)

    async def _stop(self, stop: ShutdownRequest) -> None:
        hurrying = asyncio.create_task(self._hurry(stop))
        reporting = asyncio.create_task(self._report_stop()) if stop.asked.is_set() else None
        try:
            for name, grace in GRACE.items():
                number = signal.SIGUSR1 if name == "node" and self._pods.keep else signal.SIGTERM
                await self._supervisors[name].stop(grace, number)
        finally:
            hurrying.cancel()
            if reporting is not None:
                reporting.cancel()

    async def _report_stop(self) -> None:
        """Report what the stop waits for: the pods, then a process that is slow to stop."""
        # Imported here, as below.
        from pilothouse.app.stop_progress import LOOK_SECONDS, StopProgress

        progress = StopProgress(self._folder.node, self._say, hint="; press Ctrl-C again to kill them")
        patience = dict.fromkeys(self._supervisors, SLOW_SECONDS)
        while True:
            if self._pods.keep or not progress.look(time.monotonic()):
                for name, supervisor in self._supervisors.items():
                    if supervisor.health.state == "stopping" and name in patience:
                        patience[name] -= LOOK_SECONDS
                        if patience[name] <= 0:
                            self._say(f"waiting for {name} to stop (at most {GRACE[name]:g} s)")
                            del patience[name]
            await asyncio.sleep(LOOK_SECONDS)

    async def _end_pods(self, stop: ShutdownRequest) -> None:
        """Stop the pods if the node was killed, or stopped before it could do so."""
        # Imported here: it is rarely needed, and would take memory all the time.
        from pilothouse.app.pod_shutdown import end_all

        if ended := await end_all(self._folder.node, stop):
            self._say(f"the node did not stop its pods; stopped {ended} containers")

    async def _hurry(self, stop: ShutdownRequest) -> None:
        """Pass a second Ctrl-C on to the processes."""
        await stop.hurried.wait()
        for supervisor in self._supervisors.values():
            if supervisor.health.state == "stopping":
                supervisor.hurry()

    # The commands

    def _server_argv(self) -> tuple[str, ...]:
        host = f"[{self._options.host}]" if ":" in self._options.host else self._options.host
        listen = f"{host}:{self._port}"
        flags = ["--data", str(self._folder.path), "--listen", listen, "--local-node", self._options.node]
        if not self._supervisors["apiserver"].health.starts:
            # Only at the first start: when the server alone is restarted, the node keeps running.
            flags.append("--local-node-absent")
        return command_of(
            "apiserver", *flags, *self._options.server_flags, *flags_of(self._sockets["apiserver"])
        )

    def _manager_argv(self) -> tuple[str, ...]:
        # There is no standby: after a crash the next process should get the lease soon.
        timing = ("lease-duration=5s", "renew-deadline=4s", "retry-period=1s")
        flags = (f"--leader-elect-{each}" for each in timing)
        kubeconfig = ("--kubeconfig", str(self._folder.manager_kubeconfig))
        identity = ("--control-node", self._options.node, "--control-node-mode", "controller+worker")
        store = ("--storage-type", "sqlite")
        metrics = ("--autopilot-config", str(self._folder.path / "autopilot.yaml"))
        return command_of(
            "controller-manager",
            *kubeconfig,
            *flags,
            *identity,
            *store,
            *metrics,
            *self._options.manager_flags,
        )

    def _node_argv(self) -> tuple[str, ...]:
        flags = ("--kubeconfig", str(self._folder.node_kubeconfig), "--data", str(self._folder.path))
        return command_of(
            "node",
            *flags,
            *("--name", self._options.node, "--stop-pods", "--api-port", str(self._port)),
            *self._options.node_flags,
            *flags_of(self._sockets["node"]),
            *(word for each in self._store for word in ("--socket-store-fd", str(each.fileno()))),
        )

    def _with_sockets(self, role: str, common: _Common) -> _Common:
        """The common options, with the sockets of this process."""
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
            # On a full disk, for example: `status` then shows the last report, and everything keeps running.
            self._say(
                f"can't write the report for `pilothouse status` in {self._folder.path}: {problem.strerror}"
            )

    def _report(self) -> UpReport:
        healths = [supervisor.health for supervisor in self._supervisors.values()]
        return UpReport(
            pid=os.getpid(),
            since=self._options.began,
            url=self._url,
            node=self._options.node,
            keep=self._pods.keep,
            ready=self._ready,
            roles=tuple(
                ProcessReport(each.name, each.state, each.pid, each.since, each.starts, each.last_end)
                for each in healths
            ),
            manager=self._manager_address(),
            node_problem=self._node_problem(),
        )

    def _node_problem(self) -> str:
        """Why the node is not ready, as it last said; empty if it is, or has not said anything yet."""
        lines = self._supervisors["node"].health.lines
        return lines[-1].partition(WHY_NOT_READY)[2] if lines else ""

    def _manager_address(self) -> str:
        found = (line.partition(PAGES)[2] for line in self._supervisors["controller-manager"].health.lines)
        return next(filter(None, found), "").removeprefix("http://")


def _bound(role: str, host: str, port: int, *, family: int = socket.AF_UNSPEC) -> list[socket.socket]:
    """Raises ``StartError``."""
    try:
        return bind_sockets(host, port, family=family)
    except StartError as problem:
        raise StartError(f"{role}: {problem}") from None


def _family(host: str) -> int:
    """The address family of the node's own address."""
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def command_of(role: str, *flags: str) -> tuple[str, ...]:
    # -P: no module is imported from the current folder, which may belong to anyone.
    return (sys.executable, "-P", "-m", "pilothouse", role, "--lifeline", "{lifeline}", *flags)
