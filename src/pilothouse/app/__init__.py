"""Composition: which parts make an API server. Reads options, builds parts, runs them until told to stop."""
