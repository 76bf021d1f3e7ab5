"""Measurements. Nothing here is a test: figures depend on the machine, so only ratios of one interleaved run count."""
