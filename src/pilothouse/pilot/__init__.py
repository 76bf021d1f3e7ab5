"""The process beside a database: the first process of its container, the parent of the database, and its observer.

driver               what a pilot has to know of a database: the protocol that each driver fulfils; ``drivers`` has ours
driver_registry      finds the driver of an application
instance_lifecycle   what to do next with an instance, as a pure decision
instance_supervisor  carries it out: hooks, start, stop, restart, exit
observer             how the database is and, for the leader, how its whole cluster is
peers                the other pilots of the cluster, and which of them leads
pilot_status         what the Pilot's status says; ``status_writer`` writes it, ``heartbeat`` renews the Lease
probe_server         probes and metrics over HTTP

Knows the API by its client alone, and nothing of servers, stores, controllers or nodes. Drivers don't know each other. The Pilot
object is the whole contract with controllers (ADR 10). A pilot has to stay small: one runs for every instance of a database.
"""
