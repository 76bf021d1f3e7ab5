"""The list of controllers, and which of them run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from pilothouse.api.kind_names import ElasticsearchCluster
from pilothouse.api.openstorage.v1alpha1 import ActionBudget
from pilothouse.controllers.application_actions import all_executors
from pilothouse.controllers.application_policies import application_policies
from pilothouse.controllers.cassandra_clusters import cassandra_clusters
from pilothouse.controllers.certificate_request_cleaner import certificate_request_cleaner
from pilothouse.controllers.control_node_silence import control_node_silence
from pilothouse.controllers.disruption_budgets import disruption_budgets
from pilothouse.controllers.drains.drain_controller import drains
from pilothouse.controllers.elasticsearch.cluster_controller import elasticsearch_clusters
from pilothouse.controllers.elasticsearch.desired.pilot_specs import new_pilot_spec
from pilothouse.controllers.elasticsearch.secrets_controller import RandomSecrets, elasticsearch_secrets
from pilothouse.controllers.endpoints import endpoints
from pilothouse.controllers.garbage_collector import garbage
from pilothouse.controllers.namespaces import namespaces
from pilothouse.controllers.node_certificate_approval import node_requests
from pilothouse.controllers.node_lifecycle import node_lifecycle
from pilothouse.controllers.orphaned_pods import stranded_pods
from pilothouse.controllers.pilots import pilot_collection, pilot_heartbeats
from pilothouse.controllers.pilots.pilot_creation import pilot_creator
from pilothouse.controllers.plans.plan_controller import plans
from pilothouse.controllers.root_certificates import root_certificates
from pilothouse.controllers.scheduling.scheduler import scheduling
from pilothouse.controllers.service_accounts import service_accounts
from pilothouse.controllers.stateful_sets.stateful_set_controller import stateful_sets
from pilothouse.controllers.storage.claim_binder import claims
from pilothouse.controllers.storage.protection import claim_protection, volume_protection
from pilothouse.controllers.storage.volume_lifecycle import volumes
from pilothouse.controllers.update_configs.update_config_controller import update_configs
from pilothouse.rules.rule_controllers import rule_controllers
from pilothouse.rules.rule_providers import NoProviders, RuleProviders
from pilothouse.rules.ruled_objects import RuleSettings
from pilothouse.runtime.controller import Controller


class UnknownController(ValueError):
    """A flag names a controller that does not exist."""


@dataclass(frozen=True, kw_only=True)
class ControllerTimeouts:
    """How many seconds controllers wait before they act."""

    pilot_without_pod: float = pilot_collection.COLLECTION_PERIOD
    """After it a Pilot without a pod is deleted."""
    silent_pilot: float = pilot_heartbeats.SILENCE_PERIOD
    """After it a pilot that does not report counts as lost."""


DEFAULT_TIMEOUTS: Final = ControllerTimeouts()


def all_controllers(
    authority: str,
    timeouts: ControllerTimeouts = DEFAULT_TIMEOUTS,
    *,
    exclude_from_plans: frozenset[str] = frozenset(),
    providers: RuleProviders = NoProviders(),
    rule_settings: RuleSettings = RuleSettings(),
    rule_budget: Callable[[], ActionBudget | None] = lambda: None,
) -> tuple[Controller, ...]:
    """Every controller. ``authority`` is the PEM of the authority that pods verify the API server with;
    ``exclude_from_plans`` are the kinds of machines that no plan may update: controller, worker;
    ``providers`` have the metrics that rules watch, and ``rule_budget`` is that of all rules together."""
    return (
        application_policies,
        cassandra_clusters,
        certificate_request_cleaner,
        claim_protection,
        claims,
        control_node_silence,
        pilot_collection.pilot_collector(timeouts.pilot_without_pod),
        disruption_budgets,
        drains,
        elasticsearch_clusters,
        elasticsearch_secrets(RandomSecrets()),
        endpoints,
        garbage,
        namespaces,
        node_lifecycle,
        node_requests,
        pilot_creator({ElasticsearchCluster: new_pilot_spec}),
        plans(exclude_from_plans),
        root_certificates(authority),
        scheduling,
        service_accounts,
        pilot_heartbeats.silent_pilots(timeouts.silent_pilot),
        stateful_sets,
        stranded_pods,
        update_configs,
        volume_protection,
        volumes,
        *all_executors(),
        *rule_controllers(providers, rule_settings, rule_budget),
    )


def select_controllers(
    controllers: Sequence[Controller], selection: Sequence[str], *, ours: bool
) -> list[Controller]:
    """The selected controllers: ``*`` is all that suit the server, ``name`` adds one, ``-name`` removes one.

    On Kubernetes, those that it has itself are disabled, whatever is selected. Raises ``UnknownController``.
    """
    known = {one.name for one in controllers}
    for flag in selection:
        if flag != "*" and flag.removeprefix("-") not in known:
            raise UnknownController(
                f"there is no controller {flag.removeprefix('-')!r}; there are {', '.join(sorted(known))}"
            )
    wanted = {one.name for one in controllers} if "*" in selection else set()
    wanted |= {flag for flag in selection if flag in known}
    wanted -= {flag.removeprefix("-") for flag in selection if flag.startswith("-")}
    if not wanted:
        raise UnknownController(
            "no controller is selected; '*' selects all of them, and '*,-name' all but one"
        )
    return [one for one in controllers if one.name in wanted and (ours or not one.standalone)]
