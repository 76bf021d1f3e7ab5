"""Executors: controllers that carry out ApplicationActions, one module for each action.

An action's spec says exactly what is to be brought about (``target: {to: 480Mi}``), and never changes. An
executor writes the phase Running before it touches anything, and Succeeded, Failed or Declined at the
end; the condition ``Complete`` says why. Executors know no rule's conditions and no metrics.

volume_resize, volume_iops, volume_move, pool_actions, workload_scale, workload_resources,
application_redundancy, application_rebalance, webhook_actions
                        the executors
unstarted_actions       fails actions that nothing carries out
history                 deletes finished actions
computed_classes        deletes VolumeAttributesClasses that executors have computed and nothing uses
action_status           the status of an action
action_attempts, action_pauses
                        repeated writes of an executor, and when it must not write
class_changes           gives a claim another VolumeAttributesClass; ``move_steps`` moves its volume by one
field_change            sets a field and waits for its effect; ``owner_fields`` sets sizes of owners
target_cluster, target_workload
                        the object that an action acts on
action_invariants       what holds whatever fails; the simulator checks it
"""

from __future__ import annotations

from pilothouse.controllers.application_actions.application_rebalance import application_rebalance
from pilothouse.controllers.application_actions.application_redundancy import application_redundancy
from pilothouse.controllers.application_actions.computed_classes import computed_classes
from pilothouse.controllers.application_actions.history import action_history
from pilothouse.controllers.application_actions.pool_actions import storage_pools
from pilothouse.controllers.application_actions.unstarted_actions import unstarted_actions
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
        unstarted_actions,
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
