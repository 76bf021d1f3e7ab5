"""Carries out what ``instance_lifecycle`` decides, from waiting for the Pilot to the exit of the database.

    supervisor = InstanceSupervisor(api, instance, driver, SystemClock(), Random())
    code = await supervisor.run(asked)    # the exit code of this process; asked is the StopRequest

Lifecycle, observation, heartbeat and election are tasks side by side, restarted if they fail. None needs the
API server once the database runs: without it they go on with the last Pilot that was read.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from random import Random
from typing import Final

from pilothouse.aio.background_tasks import BackgroundTasks
from pilothouse.aio.race import unless
from pilothouse.api.kind_names import Pilot
from pilothouse.api.objects import Object, Tree
from pilothouse.base.clock import Clock
from pilothouse.client.access import AccessError
from pilothouse.client.api import Api
from pilothouse.client.informer import Informer
from pilothouse.client.transport import TransportError
from pilothouse.meta.errors import StatusError
from pilothouse.pilot import heartbeat
from pilothouse.pilot.data_volume import DataVolume
from pilothouse.pilot.database_process import DatabaseProcess
from pilothouse.pilot.driver import DesiredState, Driver, HookFailed, HookNotReady, InstanceEnvironment, Phase
from pilothouse.pilot.instance_lifecycle import (
    ExitPilot,
    InstanceHistory,
    Names,
    RestartInstance,
    RunHook,
    StartDatabase,
    StopDatabase,
    WaitForChange,
    decide,
    gives_up,
    why_stop,
)
from pilothouse.pilot.observer import DatabaseObserver
from pilothouse.pilot.peers import PilotPeers, has_peers
from pilothouse.pilot.pilot_metrics import render_metrics
from pilothouse.pilot.pilot_status import InstanceFacts, why_not_ready
from pilothouse.pilot.process_exit import DatabaseExit
from pilothouse.pilot.status_writer import PilotStatusWriter
from pilothouse.runtime.event_recorder import EventCorrelator
from pilothouse.supervise.signals import StopRequest

GRACE: Final = 1500.0
"""Seconds that a database has to stop: one that is killed has to recover."""
LOOK: Final = 5.0
LOOK_CLOSELY: Final = 1.0
"""Seconds between two observations of the database; the second while it changes."""
_PHASES: Final[tuple[Phase, ...]] = ("PreStart", "PostStart", "PreStop", "PostStop")
_NEED_DATABASE: Final[frozenset[Phase]] = frozenset(("PostStart", "PreStop"))
"""Phases whose hooks need a running database."""
_RETRY_SECONDS: Final = (0.5, 30.0)
_EXIT_SECONDS: Final = 5.0

log = logging.getLogger(__name__)


class InstanceSupervisor:
    def __init__(
        self,
        api: Api,
        instance: InstanceEnvironment,
        driver: Driver,
        clock: Clock,
        rng: Random,
        *,
        grace: float = GRACE,
    ) -> None:
        self._api = api
        self._instance = instance
        self._driver = driver
        self._clock = clock
        self._rng = rng
        self._grace = grace
        self._own = Informer(
            api, Pilot, rng, clock, namespace=instance.namespace, fields=f"metadata.name={instance.name}"
        )
        self._own.subscribe(lambda _: self._wake_up())
        self._status_writer = PilotStatusWriter(
            api, EventCorrelator(component="pilot", host=instance.name), clock
        )
        self._pilot: Object | None = None
        self._restarts: int | None = None
        self._life = InstanceHistory()
        self._child: DatabaseProcess | None = None
        self._exit: DatabaseExit | None = None
        self._observer = DatabaseObserver(driver, clock)
        self._volume = DataVolume(instance.folder)
        self._trouble = ""
        self._has_failed = False
        self._failing: Tree = {}
        self._peers: PilotPeers | None = None
        self._beats = 0
        self._found_at: float | None = None
        self._start_took: float | None = None
        """Seconds from the Pilot found to the database's first start."""
        self._found = asyncio.Event()
        """The Pilot has been seen."""
        self._wake = asyncio.Event()
        self._changed = asyncio.Event()

    async def run(self, asked: StopRequest) -> int:
        """Until the database has exited and is not restarted. May be called once."""
        parts = BackgroundTasks(
            {"pilot": self._own.run, "election": self._elect, "observer": self._look, "heartbeat": self._beat}
        )
        async with parts.running():
            code = await self._live(asked)
        if self._peers is not None:
            with contextlib.suppress(TimeoutError):
                # A server that is away must not delay the exit; the lease expires by itself.
                async with asyncio.timeout(_EXIT_SECONDS):
                    await self._peers.release()
        await self._write_last_status()
        return code

    def pass_on(self, number: int) -> None:
        if self._child is not None and self._life.is_running:
            self._child.send(number)

    def readiness(self) -> str:
        """Why the database is not ready; empty if it is."""
        known = self._known()
        if known is None:
            return f"there is no Pilot {self._instance.name} yet"
        if not self._life.is_running or self._life.stopping:
            return known.trouble or f"the database does not run ({self._life.standing})"
        if not self._observer.is_ready:
            assert self._pilot is not None
            return why_not_ready(self._pilot, known, self._clock.now())[1]
        return ""

    @property
    def exit_message(self) -> str:
        """Why the database exited; empty after a clean exit."""
        if self._exit is None or self._exit.clean:
            return ""
        # The pod's status has the exit code already.
        return self._exit.message if self._exit.message and not self._exit.signal else self._exit.sentence

    def liveness(self) -> str:
        """Why the container should be restarted; empty if it should not."""
        seen = self._observer.seen
        return seen.message if self._life.is_running and seen is not None and not seen.live else ""

    def metrics(self) -> str:
        leads = self._peers is not None and self._peers.leads
        return render_metrics(
            self._instance.name,
            self._known(),
            leads=leads,
            beats=self._beats,
            now=self._clock.now(),
            start_took=self._start_took,
        )

    async def _live(self, asked: StopRequest) -> int:
        while True:
            if self._life.is_running and self._child is not None and self._child.exit is not None:
                self._ended(self._child.exit)
            desired = self._desired()
            if desired is not None and self._life.is_running and desired.hash == self._life.hash:
                self._life = self._life.confirmed(desired.generation)
            if desired is not None:
                self._life = self._life.preparing_for(desired.hash)
            seen = self._observer.seen
            restart = seen.restart if seen is not None else ""
            act = decide(
                self._life, desired, asked=asked.urgency > 0, hooks=self._names(desired), restart=restart
            )
            match act:
                case ExitPilot(code):
                    return code
                case WaitForChange():
                    await unless(self._wake.wait(), asked.wait(asked.urgency + 1))
                    self._wake.clear()
                case RestartInstance():
                    self._set_life(self._life.anew())
                case StartDatabase():
                    assert desired is not None
                    await self._retry("PreStart", "Start", partial(self._launch, desired), asked)
                case StopDatabase(because):
                    await self._halt(because, asked)
                case RunHook(phase, name):
                    await self._hook(phase, name, asked)

    def _names(self, desired: DesiredState | None) -> Names:
        if desired is None:
            return {}
        return {phase: [hook.name for hook in self._driver.hooks(phase, desired)] for phase in _PHASES}

    async def _hook(self, phase: Phase, name: str, asked: StopRequest) -> None:
        if phase == "PreStart" and self._life.standing == "Waiting":
            self._set_life(self._life.preparing())
        if phase == "PreStop" and not self._life.stopping:
            # It does not count as ready from here on, though it still runs.
            reason = why_stop(self._life, self._desired(), asked=asked.urgency > 0)
            reason = reason or "its driver asks for a restart"
            self._set_life(self._life.halting(reason))
            # Others act on the status, so it says that the database is about to stop before a hook runs.
            await self._report()

        asked_for = ""

        async def run() -> None:
            nonlocal asked_for
            desired = self._desired()
            assert desired is not None
            asked_for = desired.hash
            hook = next((each for each in self._driver.hooks(phase, desired) if each.name == name), None)
            if hook is not None:
                await hook.run()

        if await self._retry(phase, name, run, asked):
            if phase == "PreStart" and asked_for != self._life.prepared:
                return  # The configuration has changed meanwhile: all hooks run again.
            self._set_life(self._life.ran(phase, name))

    async def _retry(
        self, phase: Phase, name: str, run: Callable[[], Awaitable[None]], asked: StopRequest
    ) -> bool:
        """Retry until it is done or given up. False if the next action has to be decided again."""
        attempts, pause = 0, _RETRY_SECONDS[0]
        while True:
            try:
                if not await unless(run(), self._unwanted(phase, asked, asked.urgency + 1)):
                    return (
                        gives_up(phase, attempts, asked=True, urgency=asked.urgency) and phase != "PreStart"
                    )
                self._trouble, self._has_failed, self._failing = "", False, {}
                return True
            except HookNotReady as reason:
                self._set_trouble(f"{name}: {reason}")
                pause = _RETRY_SECONDS[0]
            except HookFailed as problem:
                attempts += 1
                self._failing = problem.status
                self._set_trouble(f"{name} failed: {problem}", failed=True)
                log.warning("%s: %s failed: %s", phase, name, problem)
                if self._pilot is not None:
                    await self._status_writer.record_event(
                        self._pilot, "ErrExecHook", f"{phase}: {name} failed: {problem}", warning=True
                    )
            stopping = asked.urgency > 0
            if gives_up(phase, attempts, asked=stopping, urgency=asked.urgency):
                return phase not in ("PreStart", "PostStart")
            waited = await unless(asyncio.sleep(pause), self._unwanted(phase, asked, asked.urgency + 1))
            if not waited and (phase == "PreStart" or self._lacks_database(phase)):
                return False
            pause = min(pause * 2, _RETRY_SECONDS[1])

    async def _unwanted(self, phase: Phase, asked: StopRequest, urgency: int) -> None:
        """Returns when a hook is no longer wanted: by a stop request of this urgency, or since the database
        that it needs has exited."""
        if phase in _NEED_DATABASE and self._child is not None:
            await unless(asked.wait(urgency), self._child.ended())
        else:
            await asked.wait(urgency)

    def _lacks_database(self, phase: Phase) -> bool:
        """Whether the database that the hooks of a phase need has exited."""
        return phase in _NEED_DATABASE and self._child is not None and self._child.exit is not None

    async def _launch(self, desired: DesiredState) -> None:
        child = DatabaseProcess.begin(self._driver.start(desired), self._clock, ended=self._wake_up)
        self._child = child
        self._observer.begin()
        if self._start_took is None and self._found_at is not None:
            self._start_took = asyncio.get_running_loop().time() - self._found_at
        self._set_life(self._life.launched(desired))
        log.info("started the database as process %d", child.pid)
        if self._pilot is not None:
            await self._status_writer.record_event(
                self._pilot, "ProcessStarted", f"started process {child.pid}"
            )

    async def _halt(self, because: str, asked: StopRequest) -> None:
        assert self._child is not None
        self._set_life(self._life.halting(because))
        log.info("stopping the database: %s", because)
        self._ended(await self._child.stop(asked, self._grace))

    def _ended(self, exit: DatabaseExit) -> None:
        self._exit = exit
        self._observer.forget()
        self._set_life(self._life.ended(clean=exit.clean))
        if not exit.clean:
            log.error("the database has exited: %s", exit.sentence)

    async def _look(self) -> None:
        """Observe the database, lead the cluster if this pilot leads, write the status; periodically."""
        while True:
            self._changed.clear()
            desired = self._desired()
            await self._volume.measure()
            if desired is not None and self._pilot is not None:
                if self._life.is_running and not self._life.stopping:
                    await self._observe(desired)
                if self._peers is not None:
                    self._peers.update(serves=self._life.is_running and self._observer.is_ready)
                await self._report()
            closely = not self._observer.is_ready or (desired is not None and desired.decommission)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_CLOSELY if closely else LOOK):
                    await self._changed.wait()

    async def _report(self) -> None:
        known = self._known()
        if known is not None and self._pilot is not None:
            self._pilot = await self._status_writer.write(self._pilot, known)

    async def _observe(self, desired: DesiredState) -> None:
        child = self._child
        observed = await self._observer.look(desired, self._peers)
        if child is self._child and self._life.is_running and self._observer.take(observed):
            self._wake.set()

    async def _beat(self) -> None:
        heart = heartbeat.PilotHeartbeat(self._api, self._clock)
        await self._found.wait()
        while True:
            assert self._pilot is not None
            try:
                await heart.beat(self._pilot)
                self._beats += 1
            except (StatusError, TransportError, AccessError) as problem:
                log.warning("can't renew the heartbeat lease: %s", problem)
            await asyncio.sleep(heartbeat.EVERY)

    async def _elect(self) -> None:
        """Take part in the leader election, if this instance is a candidate."""
        await self._found.wait()
        desired = self._desired()
        assert desired is not None
        assert self._pilot is not None
        if not has_peers(self._pilot) or not self._driver.is_candidate(desired):
            await asyncio.Event().wait()
        self._peers = self._peers or PilotPeers(
            self._api, self._pilot, self._clock, self._rng, changed=self._wake_up
        )
        await self._peers.run()

    async def _write_last_status(self) -> None:
        known = self._known()
        if known is None or self._pilot is None:
            return
        if self._exit is not None and not self._exit.clean:
            await self._status_writer.record_event(
                self._pilot, "ProcessEnded", f"the database is down: {self._exit.sentence}", warning=True
            )
        with contextlib.suppress(StatusError, TransportError, AccessError):
            # Others may have written meanwhile, and the watch has ended.
            self._pilot = await self._api.get(
                Pilot, self._instance.name, self._instance.namespace, deadline=_EXIT_SECONDS
            )
        await self._status_writer.write(self._pilot, known, always=True)

    def _desired(self) -> DesiredState | None:
        found = self._own.cache.get(self._instance.namespace, self._instance.name)
        if found is not None and (self._pilot is None or found.revision >= self._pilot.revision):
            self._pilot = found
        if self._pilot is None:
            return None
        if not self._found.is_set():
            self._found_at = asyncio.get_running_loop().time()
            self._found.set()
        if self._restarts is None:
            before = self._pilot.status
            self._restarts = int(before.get("restarts") or 0) - (0 if before.get("lastStartedTime") else 1)
        peers = self._peers
        return DesiredState.of(
            self._pilot,
            leads=peers is not None and peers.leads,
            leader=peers.leader if peers is not None else "",
        )

    def _known(self) -> InstanceFacts | None:
        desired = self._desired()
        if desired is None:
            return None
        child = self._child
        return InstanceFacts(
            life=self._life,
            desired=desired,
            application=self._driver.application,
            observation=self._observer.seen,
            observed=self._observer.generation,
            pid=child.pid if child is not None else None,
            started=child.started if child is not None else None,
            restarts=max(0, (self._restarts or 0) + self._life.starts),
            exit=self._exit,
            trouble=self._trouble,
            has_failed=self._has_failed,
            failing=self._failing,
            has_served=self._observer.has_served,
            cluster=self._observer.cluster,
            folder=str(self._instance.folder),
            volume=self._volume.usage,
        )

    def _set_life(self, life: InstanceHistory) -> None:
        self._life = life
        self._changed.set()

    def _set_trouble(self, trouble: str, *, failed: bool = False) -> None:
        self._trouble, self._has_failed = trouble, failed
        self._changed.set()

    def _wake_up(self) -> None:
        self._wake.set()
        self._changed.set()
