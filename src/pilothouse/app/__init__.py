"""Composition: which parts make an API server, a controller-manager, a node, and a whole control plane on one
machine (``up``).

It reads options, builds parts, and runs them until they are stopped; the commands on a data folder and
its keys (backup, certificates, bootstrap tokens) are here too.
"""
