"""Role-based access control with Kubernetes' meaning: who holds which permissions, and who may hand them on.

``rules`` says what one rule allows and ``coverage`` whether rules contain others: both pure. ``grants`` joins
roles and bindings, ``authorizer`` keeps that in step with the cache and decides. ``escalation`` watches over
writes to roles and bindings, ``aggregation`` composes roles of others. ``policy`` (with
``controller_policy``, in the words of ``declaring``) is what every server starts with, ``reconciling`` sees
to it.

Nothing here knows who asks over which connection, or what is asked for: users and attributes come from
outside.
"""
