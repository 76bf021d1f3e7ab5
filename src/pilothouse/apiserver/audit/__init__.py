"""The audit trail: who asked for what, when, from where, and how the server answered.

A request costs the server an entry in a bounded queue (``trail``). The policy (``audit_policy``) decides what
is recorded of it; ``records`` makes a JSON line of that for a file that is rotated (``log_file``). ``page``
serves the lines of all instances through the API. Nothing here delays a request, and no secret gets into a
line (``confidential``).
"""
