"""What a pilot or a node may access, decided ahead of RBAC, so that no role can widen it.

``identity`` classifies users. ``bound_pods`` (with ``references``) and ``pilot_index`` follow the cache.
``node_scope`` and ``pilot_scope`` are the rules for requests, ``node_writes`` and ``pilot_writes`` those for
the content of writes, with ``node_claims`` for ranges, addresses and names. ``restriction_authorizer``
combines them; it has no opinion about other users.
"""
