"""Modules of ready-made rules: one ``PolicyModule`` for each application.

    find_module("postgres").policies             # volume-resize, time-to-full, slow-volume, quiet-volume, …
    expand("orders", spec).rules                 # the AutopilotRules of an ApplicationPolicy

An ApplicationPolicy picks policies of a module and sets their parameters; its controller makes
AutopilotRules of them. Nouns only: nothing here measures, reads or writes anything.

policy_module, policy_parameters
                    the descriptor of a module, and of what can be set
module_registry     the modules, ours and those of other packages
expansion           an ApplicationPolicy as AutopilotRules
rule_fields, device_metrics
                    parts of rules that modules share
volume_policies, quiet_volume
                    policies that modules share
postgres_policies, elasticsearch_policies, redis_policies, cassandra_policies, kafka_policies
                    the modules
"""
