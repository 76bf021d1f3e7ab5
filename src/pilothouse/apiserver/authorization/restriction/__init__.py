"""What a pilot or a node may touch, decided ahead of RBAC, so that no role can widen it.

``identity`` says whether a user is a node, or a token bound to a pod. ``bound_pods`` and ``pilot_index`` follow the cache: which
node runs which pods and what those refer to (``references``); which Pilot belongs to which cluster. ``node_scope`` and
``pilot_scope`` are the rules for requests, ``node_writes`` and ``pilot_writes`` those for what a write may contain;
``node_claims`` keeps a node from ranges, addresses and names of others; ``restriction_authorizer`` puts all of it together.

Nothing here grants anything to anybody else: for every other user there is no opinion.
"""
