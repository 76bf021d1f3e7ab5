"""ElasticsearchClusters: pools of nodes, created, scaled, drained and rolled without losing a document.

``cluster_controller`` puts a decision together. ``observed`` reads what exists, ``desired`` says what
objects a cluster should have, and each module of ``steps`` decides the next step of one kind of change: roll,
reconfigure, scale. Every node that is taken down passes ``steps.restart_gate``. ``status`` says what the
cluster reports. ``secrets_controller`` is a controller of its own, which makes the Secrets of clusters with
security. Controllers and pilots communicate through the Pilot object alone (``docs/adr/0010``).
"""
