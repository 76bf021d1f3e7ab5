"""Role-based access control with Kubernetes' meaning: who holds which permissions, and who may hand them on.

``rules`` says what one rule allows and ``coverage`` whether rules contain others: both pure. ``grants`` joins
roles and bindings, ``rbac_authorizer`` keeps that in step with the cache and decides. ``escalation`` checks
writes to roles and bindings, ``aggregation`` composes roles of others. ``default_roles`` (with
``controller_policy``, made with ``role_builders``) is what every server starts with, and
``role_reconciliation`` restores it.

Nothing here knows who asks over which connection, or what is asked for: users and attributes come from
outside.
"""
