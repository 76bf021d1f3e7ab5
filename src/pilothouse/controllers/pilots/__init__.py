"""Pilots: one for each pod that has a pilot process, for as long as its StatefulSet wants that pod.

``pilot_creation`` creates them, ``pilot_collection`` deletes those whose pods are gone for good, and ``pilot_heartbeats`` marks those
whose pilots are silent as not ready. What an instance should be like is for the controller of its cluster to say.
"""
