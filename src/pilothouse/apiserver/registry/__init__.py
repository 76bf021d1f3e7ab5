"""The special kinds: one strategy each (``strategy``), registered in one table (``strategies``).

A strategy prepares and validates objects, does what has to be done around a write, and answers at the kind's
own subresources.
"""
