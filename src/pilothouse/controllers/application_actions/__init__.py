"""Executors: controllers that carry out ApplicationActions, one module for each action.

An action's spec says exactly what is to be brought about (``target: {to: 480Mi}``), and never changes. An
executor writes the phase Running before it touches anything, and Succeeded, Failed or Declined at the
end; the condition ``Complete`` says why. Executors know no rule's conditions and no metrics.
"""

from __future__ import annotations

from pilothouse.controllers.application_actions.application_rebalance import application_rebalance
from pilothouse.controllers.application_actions.application_redundancy import application_redundancy
from pilothouse.controllers.application_actions.computed_classes import computed_classes
from pilothouse.controllers.application_actions.history import action_history
from pilothouse.controllers.application_actions.pool_actions import storage_pools
from pilothouse.controllers.application_actions.unclaimed import unclaimed_actions
from pilothouse.controllers.application_actions.volume_iops import volume_setiops
from pilothouse.controllers.application_actions.volume_move import volume_move
from pilothouse.controllers.application_actions.volume_resize import volume_resize
from pilothouse.controllers.application_actions.webhook_actions import webhook_actions
from pilothouse.controllers.application_actions.workload_resources import workload_resources
from pilothouse.controllers.application_actions.workload_scale import workload_scale
from pilothouse.runtime.controller import Controller


def all_executors() -> tuple[Controller, ...]:
    """The executors, and the controllers that keep the records of actions."""
    return (
        action_history,
        unclaimed_actions,
        computed_classes,
        storage_pools,
        volume_move,
        volume_resize,
        volume_setiops,
        webhook_actions,
        workload_scale,
        workload_resources,
        application_redundancy,
        application_rebalance,
    )
