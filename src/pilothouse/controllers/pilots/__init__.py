"""Pilots: one for each pod that has a pilot process, for as long as somebody wants that pod.

``creating`` makes them, ``collecting`` deletes those whose pods are gone for good, and ``silence`` says of a pilot that is not
heard of that nobody knows how its instance is. What an instance should be like is its cluster's controller's to say.
"""
