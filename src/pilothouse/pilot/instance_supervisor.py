"""Carries out what ``living`` decides, for one instance: from waiting for its Pilot to the end of its database.

    captain = InstanceSupervisor(api, place, driver, SystemClock(), Random())
    code = await captain.run(asked)       # the exit code of this process; asked is who tells it to stop

Three things go on at once, each kept running whatever happens to it: the life of the database, looking at it and reporting, and signs of life. None
of them needs the API server once the database runs: while that is away, everything goes on with the last Pilot that was seen.
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
"""Seconds for a database to stop in: one that is killed has to recover."""
LOOK: Final = 5.0
LOOK_CLOSELY: Final = 1.0
"""Seconds between two looks at the database; the second while it changes."""
_PHASES: Final[tuple[Phase, ...]] = ("PreStart", "PostStart", "PreStop", "PostStop")
_NEED_IT: Final[frozenset[Phase]] = frozenset(("PostStart", "PreStop"))
"""Whose hooks are for a database that runs."""
_AGAIN: Final = (0.5, 30.0)
_FAREWELL: Final = 5.0

log = logging.getLogger(__name__)


class InstanceSupervisor:
    """Of one instance."""

    def __init__(
        self,
        api: Api,
        place: InstanceEnvironment,
        driver: Driver,
        clock: Clock,
        rng: Random,
        *,
        grace: float = GRACE,
    ) -> None:
        self._api = api
        self._place = place
        self._driver = driver
        self._clock = clock
        self._rng = rng
        self._grace = grace
        self._own = Informer(
            api, Pilot, rng, clock, namespace=place.namespace, fields=f"metadata.name={place.name}"
        )
        self._own.subscribe(lambda _: self._stir())
        self._reporter = PilotStatusWriter(api, EventCorrelator(component="pilot", host=place.name), clock)
        self._pilot: Object | None = None
        self._restarts: int | None = None
        self._life = InstanceHistory()
        self._child: DatabaseProcess | None = None
        self._exit: DatabaseExit | None = None
        self._lookout = DatabaseObserver(driver, clock)
        self._volume = DataVolume(place.folder)
        self._trouble = ""
        self._has_failed = False
        self._failing: Tree = {}
        self._crew: PilotPeers | None = None
        self._beats = 0
        self._found_at: float | None = None
        self._start_took: float | None = None
        """Seconds from the Pilot found to the database's first start."""
        self._found = asyncio.Event()
        """The Pilot has been seen."""
        self._wake = asyncio.Event()
        self._news = asyncio.Event()

    async def run(self, asked: StopRequest) -> int:
        """Until the database has ended for good. Once in the life of this object."""
        parts = BackgroundTasks(
            {"pilot": self._own.run, "crew": self._sail, "looking": self._look, "heartbeat": self._beat}
        )
        async with parts.running():
            code = await self._live(asked)
        if self._crew is not None:
            with contextlib.suppress(TimeoutError):
                # A server that is away must not hold up the end; the lease runs out by itself.
                async with asyncio.timeout(_FAREWELL):
                    await self._crew.release()
        await self._last_word()
        return code

    def pass_on(self, number: int) -> None:
        """A signal to the database, if it runs."""
        if self._child is not None and self._life.is_running:
            self._child.send(number)

    def readiness(self) -> str:
        """Why the database can't be used; empty if it can."""
        known = self._known()
        if known is None:
            return f"there is no Pilot {self._place.name} yet"
        if not self._life.is_running or self._life.stopping:
            return known.trouble or f"the database does not run ({self._life.standing})"
        if not self._lookout.is_ready:
            assert self._pilot is not None
            return why_not_ready(self._pilot, known, self._clock.now())[1]
        return ""

    @property
    def exit_message(self) -> str:
        """Why the database ended other than in order; empty if it did not."""
        if self._exit is None or self._exit.clean:
            return ""
        # The code is the container's too, which is reported beside this.
        return self._exit.message if self._exit.message and not self._exit.signal else self._exit.sentence

    def liveness(self) -> str:
        """Why the whole container should be started anew; empty if it should not."""
        seen = self._lookout.seen
        return seen.message if self._life.is_running and seen is not None and not seen.live else ""

    def figures(self) -> str:
        """For Prometheus."""
        leads = self._crew is not None and self._crew.leads
        return render_metrics(
            self._place.name,
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
            wish = self._wish()
            if wish is not None and self._life.is_running and wish.hash == self._life.hash:
                self._life = self._life.confirmed(wish.generation)
            if wish is not None:
                self._life = self._life.preparing_for(wish.hash)
            seen = self._lookout.seen
            restart = seen.restart if seen is not None else ""
            act = decide(self._life, wish, asked=asked.urgency > 0, hooks=self._names(wish), restart=restart)
            match act:
                case ExitPilot(code):
                    return code
                case WaitForChange():
                    await self._woken(asked)
                case RestartInstance():
                    self._become(self._life.anew())
                case StartDatabase():
                    assert wish is not None
                    await self._persistently("PreStart", "Start", partial(self._launch, wish), asked)
                case StopDatabase(because):
                    await self._halt(because, asked)
                case RunHook(phase, name):
                    await self._hook(phase, name, asked)

    def _names(self, wish: DesiredState | None) -> Names:
        if wish is None:
            return {}
        return {phase: [hook.name for hook in self._driver.hooks(phase, wish)] for phase in _PHASES}

    async def _hook(self, phase: Phase, name: str, asked: StopRequest) -> None:
        if phase == "PreStart" and self._life.standing == "Waiting":
            self._become(self._life.preparing())
        if phase == "PreStop" and not self._life.stopping:
            # From here on it is not counted on, though it still runs.
            reason = why_stop(self._life, self._wish(), asked=asked.urgency > 0) or "its driver asks for it"
            self._become(self._life.halting(reason))
            # Others act on what they see: that it is about to stop is told before anything is done about it.
            await self._report()

        asked_for = ""

        async def run() -> None:
            nonlocal asked_for
            wish = self._wish()
            assert wish is not None
            asked_for = wish.hash
            hook = next((each for each in self._driver.hooks(phase, wish) if each.name == name), None)
            if hook is not None:
                await hook.run()

        if await self._persistently(phase, name, run, asked):
            if phase == "PreStart" and asked_for != self._life.prepared:
                return  # Another configuration was asked for meanwhile, for which all is done again.
            self._become(self._life.ran(phase, name))

    async def _persistently(
        self, phase: Phase, name: str, run: Callable[[], Awaitable[None]], asked: StopRequest
    ) -> bool:
        """Whether it is done or given up, and one may go on. False if everything has to be thought over."""
        attempts, pause = 0, _AGAIN[0]
        while True:
            try:
                if not await unless(run(), self._moot(phase, asked, asked.urgency + 1)):
                    return (
                        gives_up(phase, attempts, asked=True, urgency=asked.urgency) and phase != "PreStart"
                    )
                self._trouble, self._has_failed, self._failing = "", False, {}
                return True
            except HookNotReady as reason:
                self._complain(f"{name}: {reason}")
                pause = _AGAIN[0]
            except HookFailed as problem:
                attempts += 1
                self._failing = problem.status
                self._complain(f"{name} failed: {problem}", failed=True)
                log.warning("%s: %s failed: %s", phase, name, problem)
                if self._pilot is not None:
                    await self._reporter.tell(
                        self._pilot, "ErrExecHook", f"{phase}: {name} failed: {problem}", warning=True
                    )
            stopping = asked.urgency > 0
            if gives_up(phase, attempts, asked=stopping, urgency=asked.urgency):
                return phase not in ("PreStart", "PostStart")
            waited = await unless(asyncio.sleep(pause), self._moot(phase, asked, asked.urgency + 1))
            if not waited and (phase == "PreStart" or self._is_missed(phase)):
                return False
            pause = min(pause * 2, _AGAIN[1])

    async def _moot(self, phase: Phase, asked: StopRequest, urgency: int) -> None:
        """Until a hook has to be thought over: the pilot is asked to stop that urgently, or there is no database any more to
        run it for."""
        if phase in _NEED_IT and self._child is not None:
            await unless(asked.wait(urgency), self._child.ended())
        else:
            await asked.wait(urgency)

    def _is_missed(self, phase: Phase) -> bool:
        """Whether the database that the hooks of a phase need has ended."""
        return phase in _NEED_IT and self._child is not None and self._child.exit is not None

    async def _launch(self, wish: DesiredState) -> None:
        child = DatabaseProcess.begin(self._driver.start(wish), self._clock, ended=self._stir)
        self._child = child
        self._lookout.begin()
        if self._start_took is None and self._found_at is not None:
            self._start_took = asyncio.get_running_loop().time() - self._found_at
        self._become(self._life.launched(wish))
        log.info("the database runs as process %d", child.pid)
        if self._pilot is not None:
            await self._reporter.tell(self._pilot, "ProcessStarted", f"started process {child.pid}")

    async def _halt(self, because: str, asked: StopRequest) -> None:
        assert self._child is not None
        self._become(self._life.halting(because))
        log.info("the database is stopped: %s", because)
        self._ended(await self._child.stop(asked, self._grace))

    def _ended(self, exit: DatabaseExit) -> None:
        self._exit = exit
        self._lookout.forget()
        self._become(self._life.ended(clean=exit.clean))
        if not exit.clean:
            log.error("the database is down: %s", exit.sentence)

    async def _woken(self, asked: StopRequest) -> None:
        await unless(self._wake.wait(), asked.wait(asked.urgency + 1))
        self._wake.clear()

    async def _look(self) -> None:
        """Look at the database, do what a leader does, report; over and over."""
        while True:
            self._news.clear()
            wish = self._wish()
            await self._volume.measure()
            if wish is not None and self._pilot is not None:
                if self._life.is_running and not self._life.stopping:
                    await self._observe(wish)
                if self._crew is not None:
                    self._crew.tell(serves=self._life.is_running and self._lookout.is_ready)
                await self._report()
            closely = not self._lookout.is_ready or (wish is not None and wish.decommission)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_CLOSELY if closely else LOOK):
                    await self._news.wait()

    async def _report(self) -> None:
        known = self._known()
        if known is not None and self._pilot is not None:
            self._pilot = await self._reporter.report(self._pilot, known)

    async def _observe(self, wish: DesiredState) -> None:
        child = self._child
        sight = await self._lookout.look(wish, self._crew)
        if child is self._child and self._life.is_running and self._lookout.take(sight):
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
                log.warning("no sign of life could be given: %s", problem)
            await asyncio.sleep(heartbeat.EVERY)

    async def _sail(self) -> None:
        """Take part in choosing a leader, if this instance is one that does."""
        await self._found.wait()
        wish = self._wish()
        assert wish is not None
        assert self._pilot is not None
        if not has_peers(self._pilot) or not self._driver.stands(wish):
            await asyncio.Event().wait()
        self._crew = self._crew or PilotPeers(
            self._api, self._pilot, self._clock, self._rng, changed=self._stir
        )
        await self._crew.run()

    async def _last_word(self) -> None:
        known = self._known()
        if known is None or self._pilot is None:
            return
        if self._exit is not None and not self._exit.clean:
            await self._reporter.tell(
                self._pilot, "ProcessEnded", f"the database is down: {self._exit.sentence}", warning=True
            )
        with contextlib.suppress(StatusError, TransportError, AccessError):
            # Others may have written meanwhile, and nobody watches for us any more.
            self._pilot = await self._api.get(
                Pilot, self._place.name, self._place.namespace, deadline=_FAREWELL
            )
        await self._reporter.report(self._pilot, known, anyway=True)

    def _wish(self) -> DesiredState | None:
        """What the Pilot says, as it was last seen."""
        found = self._own.cache.get(self._place.namespace, self._place.name)
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
        crew = self._crew
        return DesiredState.of(
            self._pilot,
            leads=crew is not None and crew.leads,
            leader=crew.leader if crew is not None else "",
        )

    def _known(self) -> InstanceFacts | None:
        wish = self._wish()
        if wish is None:
            return None
        child = self._child
        return InstanceFacts(
            life=self._life,
            wish=wish,
            application=self._driver.application,
            observation=self._lookout.seen,
            observed=self._lookout.generation,
            pid=child.pid if child is not None else None,
            started=child.started if child is not None else None,
            restarts=max(0, (self._restarts or 0) + self._life.starts),
            exit=self._exit,
            trouble=self._trouble,
            has_failed=self._has_failed,
            failing=self._failing,
            has_served=self._lookout.has_served,
            cluster=self._lookout.cluster,
            folder=str(self._place.folder),
            volume=self._volume.usage,
        )

    def _become(self, life: InstanceHistory) -> None:
        self._life = life
        self._news.set()

    def _complain(self, trouble: str, *, failed: bool = False) -> None:
        self._trouble, self._has_failed = trouble, failed
        self._news.set()

    def _stir(self) -> None:
        self._wake.set()
        self._news.set()
