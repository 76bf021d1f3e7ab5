"""The audit trail: who requested what, when, from where, and the outcome.

A request costs one entry in a bounded queue (``trail``). ``audit_policy`` decides what is recorded,
``records`` encodes it, ``log_file`` stores it, ``page`` serves the records of all instances. Audit delays no
request and records no secret (``confidential``).
"""
