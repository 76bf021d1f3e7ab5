"""The decisions: one module, or package, for each thing the system looks after.

Every controller is a pure function of an object and the world (``runtime.declaring``): it reads no clock but the world's,
does no I/O, keeps nothing between two decisions, and gives a reason with each intent. It must be right after a crash
between any two of its writes, so names are deterministic and nothing counts but what is seen. An object that is not as
expected is waited for, in words; it never raises.

This package knows ``runtime``'s interfaces and the nouns; it knows no store, no API server, no client. Which controllers run
where is ``app``'s decision.
"""
