"""Role-based access control with Kubernetes' meaning: who holds which permissions, and who may hand them on.

``rules`` says what one rule allows and ``coverage`` whether rules contain others: both pure. ``grants`` joins roles and
bindings, ``authorizer`` keeps that in step with the cache and decides. ``escalation`` watches over writes to roles and
bindings, ``aggregation`` composes roles of others, ``policy`` and ``reconciling`` are what every server starts with.

Nothing here knows about requests, only users, attributes and objects.
"""
