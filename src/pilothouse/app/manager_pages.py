"""What a controller-manager shows of itself: ``/healthz``, ``/readyz`` and ``/metrics``.

    pages = manager_pages(manager, informers, leadership, identity, clock)

It is healthy while it can do its part: follow the server, take part in the election, and decide while it leads. It is ready once its caches are
filled, whether it leads or stands by; the last line of ``/readyz`` says which. A standby is as ready as a leader, since
it is the next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from pilothouse.apiserver.metrics import process_metrics
from pilothouse.app.status_server import StatusPage
from pilothouse.base.clock import Clock
from pilothouse.base.prometheus_text import CONTENT_TYPE, counter, gauge, histogram, labels
from pilothouse.client.leader_lease import Leadership
from pilothouse.client.shared_informers import SharedInformers
from pilothouse.runtime.engine import Engine
from pilothouse.runtime.manager import Manager
from pilothouse.runtime.stall_check import StallCheck

Check = tuple[str, str]
"""What was looked at, and what is wrong with it; empty if nothing is."""


def manager_pages(
    manager: Manager, informers: SharedInformers, leadership: Leadership | None, identity: str, clock: Clock
) -> Mapping[str, Callable[[], StatusPage]]:
    """The pages by path. Without leadership there is no election: the process always leads."""

    progress = StallCheck(manager.engines, lambda: leadership is None or leadership.fence is not None, clock)

    def standing() -> str:
        if leadership is None or leadership.fence is not None:
            return f"{identity} leads"
        # A lease that still names this process, which no longer relies on it, is nobody's.
        holder = "" if leadership.holder == identity else leadership.holder
        return f"{identity} stands by; {holder or 'nobody'} leads"

    def health() -> StatusPage:
        problem = leadership.problem if leadership is not None else ""
        checks = [("election", problem), ("caches", informers.problem), ("decisions", progress.problem)]
        return _checked("healthz", checks, standing())

    def readiness() -> StatusPage:
        filling = "" if manager.ready else "not filled yet"
        return _checked("readyz", [("caches", filling or informers.problem)], standing())

    def metrics() -> StatusPage:
        leads = leadership is None or leadership.fence is not None
        return StatusPage(200, "".join(_families(manager.engines, leads)), CONTENT_TYPE)

    return {
        "/healthz": health,
        "/livez": lambda: StatusPage(200, "ok"),
        "/readyz": readiness,
        "/metrics": metrics,
    }


def _checked(name: str, checks: Sequence[Check], standing: str) -> StatusPage:
    failed = any(problem for _, problem in checks)
    lines = [f"[-]{what} failed: {problem}" if problem else f"[+]{what} ok" for what, problem in checks]
    lines += [f"{name} check {'failed' if failed else 'passed'}", standing]
    return StatusPage(503 if failed else 200, "\n".join(lines) + "\n")


def _families(engines: Sequence[Engine], leads: bool) -> Iterator[str]:
    """Figures of a controller are from when this process began, over all its terms."""
    by_name = [(labels(controller=one.controller.name), one) for one in engines]
    yield gauge("pilothouse_manager_leads", "Whether this process decides.", [("", int(leads))])
    yield counter(
        "pilothouse_decisions_total",
        "Decisions taken, by what they came to.",
        [
            (f"{text},{labels(outcome=outcome)}", count)
            for text, one in by_name
            for outcome, count in sorted(one.counters.decisions.items())
        ],
    )
    yield counter(
        "pilothouse_acts_total",
        "Intents, by what came of them.",
        [
            (f"{text},{labels(verb=verb, outcome=outcome)}", count)
            for text, one in by_name
            for (verb, outcome), count in sorted(one.counters.executed.items())
        ],
    )
    yield counter(
        "pilothouse_decisions_overtaken_total",
        "Decisions that were taken again because the world had changed meanwhile.",
        [(text, one.counters.refused) for text, one in by_name],
    )
    yield counter(
        "pilothouse_decision_errors_total",
        "Decisions that broke.",
        [(text, one.counters.errors) for text, one in by_name],
    )
    yield histogram(
        "pilothouse_decision_duration_seconds",
        "How long a decision took, with what was done for it.",
        [(text, one.counters.seconds) for text, one in by_name],
    )
    yield gauge(
        "pilothouse_queue_depth",
        "Objects that wait to be decided about.",
        [(text, len(one.queue)) for text, one in by_name],
    )
    yield gauge(
        "pilothouse_queue_parked",
        "Objects that wait for a cache to show what was last written for them.",
        [(text, sum(map(len, one.parked.values()))) for text, one in by_name],
    )
    yield from process_metrics.families()
