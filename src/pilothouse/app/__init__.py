"""Composition: which parts make an API server, a controller-manager, a node, and a whole control plane on one machine (``up``).

Reads options, builds parts, runs them until told to stop. What is done to a data folder and its keys (backup, certificates,
tokens to join with) is put together here too.
"""
