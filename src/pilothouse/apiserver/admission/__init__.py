"""Admission: what a write has to pass besides the rules of its kind.

``admission_chain`` has the order; every other module is a plugin, or reads the configuration of one. Plugins
know kinds; the chain knows none.
"""
