"""Validation of clusters and pilots beyond their schemas.

Arguments fit their schema; results are all problems with their paths. Rules that differ between versions are
arguments, set in ``navigator.cluster_kinds``.
"""
