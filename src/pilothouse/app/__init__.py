"""Composition: which parts make an API server, and what is done to its data folder and keys (backup, certificates).

Reads options, builds parts, runs them until told to stop.
"""
