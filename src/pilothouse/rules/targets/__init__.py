"""The targets of actions, one module for each action: pure functions of the object and of what it depends on.

volume_size, volume_iops, volume_tier, volume_copies, pool_capacity, pool_moves, workload_replicas,
workload_resources, application_copies, application_rebalance
                the actions; ``target_table`` has them by name
volume_class    the VolumeAttributesClass of a volume
pool_balance    which volumes to move, so that pools come within a range
bounded_count   a whole number within bounds

An executor in ``controllers.application_actions`` brings a target about; the two share nothing but the
ApplicationAction.
"""
