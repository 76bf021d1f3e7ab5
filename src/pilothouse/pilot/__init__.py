"""The first process of a database's container: starts, stops and observes the database.

driver               the protocol that each driver of a database fulfils; ``drivers`` has ours
instance_lifecycle   what to do next with an instance, as a pure decision
instance_supervisor  carries it out: hooks, start, stop, restart, exit
observer             the state of the database and, for the leader, of its whole cluster
peers                the other pilots of the cluster, and which of them leads
pilot_status         the Pilot's status; ``status_writer`` writes it, ``heartbeat`` renews the Lease

It knows the API by its client alone, and nothing of servers, stores, controllers or nodes. Drivers don't know
each other. The Pilot object is the whole contract with controllers (ADR 10). A pilot has to stay small: one
runs for every instance of a database.
"""
