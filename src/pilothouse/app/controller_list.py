"""Which controllers there are, and which of them run where."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pilothouse.api.kind_names import ElasticsearchCluster
from pilothouse.controllers.cassandra_clusters import cassandra_clusters
from pilothouse.controllers.certificate_request_cleaner import certificate_request_cleaner
from pilothouse.controllers.disruption_budgets import disruption_budgets
from pilothouse.controllers.elasticsearch.cluster_controller import elasticsearch_clusters
from pilothouse.controllers.elasticsearch.pilot_specs import new_pilot_spec
from pilothouse.controllers.elasticsearch.secrets import RandomSecrets, elasticsearch_secrets
from pilothouse.controllers.endpoints import endpoints
from pilothouse.controllers.garbage_collector import garbage
from pilothouse.controllers.namespaces import namespaces
from pilothouse.controllers.node_certificate_approval import node_requests
from pilothouse.controllers.node_lifecycle import node_lifecycle
from pilothouse.controllers.orphaned_pods import stranded_pods
from pilothouse.controllers.pilots import pilot_collection, pilot_heartbeats
from pilothouse.controllers.pilots.pilot_creation import pilot_creator
from pilothouse.controllers.root_certificates import root_certificates
from pilothouse.controllers.scheduling.scheduler import scheduling
from pilothouse.controllers.service_accounts import service_accounts
from pilothouse.controllers.stateful_sets.stateful_set_controller import stateful_sets
from pilothouse.controllers.storage.claim_binder import claims
from pilothouse.controllers.storage.protection import claim_protection, volume_protection
from pilothouse.controllers.storage.volume_lifecycle import volumes
from pilothouse.runtime.controller import Controller


class UnknownController(ValueError):
    """A controller is asked for that there is not."""


@dataclass(frozen=True, kw_only=True)
class ControllerTimeouts:
    """For how many seconds controllers wait before they give something up."""

    pilot_without_pod: float = pilot_collection.GRACE
    """A Pilot goes after it."""
    silent_pilot: float = pilot_heartbeats.GRACE
    """A pilot that was not heard of for so long is no longer counted on."""


PATIENCE: Final = ControllerTimeouts()
"""That of a manager that is not told otherwise."""


def all_controllers(authority: str, patience: ControllerTimeouts = PATIENCE) -> tuple[Controller, ...]:
    """Every one. ``authority`` is the PEM text by which pods know the API server."""
    return (
        cassandra_clusters,
        certificate_request_cleaner,
        claim_protection,
        claims,
        pilot_collection.pilot_collector(patience.pilot_without_pod),
        disruption_budgets,
        elasticsearch_clusters,
        elasticsearch_secrets(RandomSecrets()),
        endpoints,
        garbage,
        namespaces,
        node_lifecycle,
        node_requests,
        pilot_creator({ElasticsearchCluster: new_pilot_spec}),
        root_certificates(authority),
        scheduling,
        service_accounts,
        pilot_heartbeats.silent_pilots(patience.silent_pilot),
        stateful_sets,
        stranded_pods,
        volume_protection,
        volumes,
    )


def chosen(controllers: Sequence[Controller], wishes: Sequence[str], *, ours: bool) -> list[Controller]:
    """Those that are wished for: ``*`` is all that fit the server, ``name`` one more, ``-name`` one less.

    On a real Kubernetes those stay off which it has itself, whatever is wished for. Raises ``UnknownController``.
    """
    known = {one.name for one in controllers}
    for wish in wishes:
        if wish != "*" and wish.removeprefix("-") not in known:
            raise UnknownController(
                f"there is no controller {wish.removeprefix('-')!r}; there are {', '.join(sorted(known))}"
            )
    wanted = {one.name for one in controllers} if "*" in wishes else set()
    wanted |= {wish for wish in wishes if wish in known}
    wanted -= {wish.removeprefix("-") for wish in wishes if wish.startswith("-")}
    if not wanted:
        raise UnknownController("no controller is left to run; '*' is all of them, and '*,-name' all but one")
    return [one for one in controllers if one.name in wanted and (ours or not one.standalone)]
