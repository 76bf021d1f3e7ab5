"""The controllers: one module, or package, for each kind of object that the system manages.

Every controller is a pure function of an object and a snapshot (``runtime.controller``): it reads no clock
but the snapshot's, does no I/O, keeps no state between two decisions, and gives a reason with each intent. It
must be correct after a crash between any two of its writes, so names are deterministic and only what is
observed counts. For an object in an unexpected state it waits, with a message; it never raises.

This package knows the interfaces of ``runtime`` and the kinds; it knows no store, no API server, no client.
``app`` decides which controllers run.
"""
