"""The audit trail: who asked for what, when, from where, and what came of it.

A request costs the server a note on a bounded queue (``trail``); what the policy wants told of it (``policy``) becomes a
JSON line (``records``) in a file that is rotated (``log_file``), and is read again, on all instances, through the API
(``page``). Nothing here holds up a request, and nothing secret gets into a line (``confidential``).
"""
