"""Role-based access control, with Kubernetes' semantics.

``rules`` and ``coverage`` are pure: what a rule allows, and which rules contain others. ``grants`` joins
roles and bindings, ``rbac_authorizer`` follows the cache and decides. ``escalation`` checks writes to roles
and bindings, ``aggregation`` composes roles. ``default_roles`` and ``controller_policy`` are the initial
policy, ``role_reconciliation`` writes it.
"""
