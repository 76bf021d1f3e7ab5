"""Composition: which parts make an API server, a controller-manager, a node, and a whole control plane on one
machine (``up``).

It reads options, builds parts, and runs them until told to stop. The commands on a data folder and its keys
(backup, certificates, bootstrap tokens) are composed here too.
"""
