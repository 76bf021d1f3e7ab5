"""Objects in the store, the watch cache in front of it, and how lists and watches are served from there.

Nothing here knows users, verbs or the rules of kinds.
"""
