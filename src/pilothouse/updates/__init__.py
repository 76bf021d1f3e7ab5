"""Payloads: channels, the update server, verified downloads, observers.

What reaches out of the cluster on behalf of plans and update configs is here; controllers decide on what it
writes into a status. It does not know nodes, controllers, pilots or the API server: it meets them in objects,
and ``app`` composes them.
"""
