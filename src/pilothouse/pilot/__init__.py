"""The process beside a database: first in its container, parent of the database, and the one who knows it.

driving     what a pilot needs to know of a database: the protocol that each driver fulfils; ``drivers`` has ours
living      what to do next in the life of an instance, as a pure decision
captain     carries it out: hooks, start, stop, restart, the end
telling     what the Pilot's status says; ``reporting`` writes it, ``beating`` shows signs of life
pages       probes and figures over HTTP

Knows the API by its client alone, and nothing of servers, stores, controllers or nodes. Drivers don't know each other. The Pilot object is the
whole contract with controllers (ADR 10). It has to stay small: one runs for every instance of a database.
"""
