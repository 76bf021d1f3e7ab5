"""Composes the flow control and the metrics of a server."""

from __future__ import annotations

from functools import partial

from pilothouse.api.registry import resources
from pilothouse.apiserver import server_instances
from pilothouse.apiserver.audit.trail import AuditTrail
from pilothouse.apiserver.flowcontrol.fair_queuing import FlowController
from pilothouse.apiserver.flowcontrol.list_estimate import ListEstimate
from pilothouse.apiserver.metrics import (
    node_targets,
    object_metrics,
    pilot_targets,
    server_metrics,
    server_targets,
)
from pilothouse.apiserver.metrics.node_targets import NodeTargets
from pilothouse.apiserver.metrics.object_metrics import ObjectMetrics
from pilothouse.apiserver.metrics.pilot_targets import PilotTargets
from pilothouse.apiserver.metrics.request_metrics import RequestCounters
from pilothouse.apiserver.metrics.server_metrics import ServerMetrics, audit_families
from pilothouse.apiserver.metrics.server_targets import ServerTargets
from pilothouse.apiserver.request_handler import RequestHandler
from pilothouse.app.options import ApiServerOptions
from pilothouse.store.timed_store import TimedStore


class Monitoring:
    """``store`` is the one that the core uses."""

    def __init__(self, options: ApiServerOptions, core: RequestHandler, store: TimedStore) -> None:
        self._core = core
        self._store = store
        self.requests = RequestCounters(core.catalog)
        self.shares = FlowController(
            options.max_requests_in_flight,
            options.max_mutating_requests_in_flight,
            ListEstimate(core.catalog, core.cache).size_of,
        )

    def serve_pages(self, trail: AuditTrail | None) -> None:
        """Serve ``/metrics``, ``/metrics/objects`` and the lists of servers, nodes and pilots."""
        core = self._core
        page = ServerMetrics(
            requests=self.requests,
            shares=self.shares,
            catalog=core.catalog,
            cache=core.cache,
            fanout=core.watches.fanout,
            store=self._store,
        )
        page.add(core.pod_security.counts.families)
        if trail is not None:
            page.add(lambda: audit_families(trail.counts))
        core.serve(server_metrics.PATH, page.answer)
        core.serve(server_targets.PATH, ServerTargets(partial(server_instances.running, self._store)).answer)
        core.serve(node_targets.PATH, NodeTargets(core.cache).answer)
        core.serve(pilot_targets.PATH, PilotTargets(core.cache).answer)
        core.serve(object_metrics.PATH, ObjectMetrics(core.cache, object_metrics.views(resources())).answer)
