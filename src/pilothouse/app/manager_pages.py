"""The pages of a controller-manager: ``/healthz``, ``/readyz`` and ``/metrics``.

    pages = manager_pages(manager, informers, leadership, identity, clock, plan=find_plan, rules=families)

It is healthy while it can watch the server, take part in leader election, and run controllers if it leads. It
is ready once its caches are filled, whether it leads or stands by; the last line of ``/readyz`` says which.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from pilothouse.api.objects import Object
from pilothouse.apiserver.metrics import process_metrics
from pilothouse.app.plan_metrics import plan_families
from pilothouse.app.status_server import StatusPage
from pilothouse.base.clock import Clock
from pilothouse.base.prometheus_text import CONTENT_TYPE, counter, gauge, histogram, labels
from pilothouse.client.leader_lease import Leadership
from pilothouse.client.shared_informers import SharedInformers
from pilothouse.runtime.engine import Engine
from pilothouse.runtime.manager import Manager
from pilothouse.runtime.stall_check import StallCheck

Check = tuple[str, str]
"""A check, and its problem; empty if it passes."""
RuleFamilies = Callable[[Sequence[Engine], bool], Iterable[str]]
"""The metrics of rules, given the engines, and whether the process leads."""


def manager_pages(
    manager: Manager,
    informers: SharedInformers,
    leadership: Leadership | None,
    identity: str,
    clock: Clock,
    *,
    plan: Callable[[], Object | None],
    rules: RuleFamilies,
) -> Mapping[str, Callable[[], StatusPage]]:
    """The pages by path. Without leadership there is no election: the process always leads. ``plan`` returns
    the update plan whose metrics the leader shows, ``rules`` the metrics of rules."""

    progress = StallCheck(manager.engines, lambda: leadership is None or leadership.fence is not None, clock)

    def standing() -> str:
        if leadership is None or leadership.fence is not None:
            return f"{identity} leads"
        # A lease that still names this process although it has stepped down has no leader.
        holder = "" if leadership.holder == identity else leadership.holder
        return f"{identity} stands by; {holder or 'no process'} leads"

    def health() -> StatusPage:
        problem = leadership.problem if leadership is not None else ""
        checks = [("election", problem), ("caches", informers.problem), ("decisions", progress.problem)]
        return _checked("healthz", checks, standing())

    def readiness() -> StatusPage:
        filling = "" if manager.ready else "not filled yet"
        return _checked("readyz", [("caches", filling or informers.problem)], standing())

    def metrics() -> StatusPage:
        leads = leadership is None or leadership.fence is not None
        families = (
            *_families(manager.engines, leads),
            *plan_families(plan() if leads else None),
            *rules(manager.engines, leads),
        )
        return StatusPage(200, "".join(families), CONTENT_TYPE)

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
    """Counters run from the start of this process, over all its terms as leader."""
    by_name = [(labels(controller=one.controller.name), one) for one in engines]
    yield gauge("pilothouse_manager_leads", "Whether this process decides.", [("", int(leads))])
    yield counter(
        "pilothouse_decisions_total",
        "Decisions, by outcome.",
        [
            (f"{text},{labels(outcome=outcome)}", count)
            for text, one in by_name
            for outcome, count in sorted(one.counters.decisions.items())
        ],
    )
    yield counter(
        "pilothouse_acts_total",
        "Intents, by verb and outcome.",
        [
            (f"{text},{labels(verb=verb, outcome=outcome)}", count)
            for text, one in by_name
            for (verb, outcome), count in sorted(one.counters.executed.items())
        ],
    )
    yield counter(
        "pilothouse_decisions_overtaken_total",
        "Decisions that were repeated because objects had changed meanwhile.",
        [(text, one.counters.refused) for text, one in by_name],
    )
    yield counter(
        "pilothouse_decision_errors_total",
        "Decisions that raised an error.",
        [(text, one.counters.errors) for text, one in by_name],
    )
    yield histogram(
        "pilothouse_decision_duration_seconds",
        "Duration of decisions, with the execution of their intents.",
        [(text, one.counters.seconds) for text, one in by_name],
    )
    yield gauge(
        "pilothouse_queue_depth",
        "Objects in the work queue.",
        [(text, len(one.queue)) for text, one in by_name],
    )
    yield gauge(
        "pilothouse_queue_parked",
        "Objects that wait until a cache shows the last write for them.",
        [(text, sum(map(len, one.parked.values()))) for text, one in by_name],
    )
    yield from process_metrics.families()
