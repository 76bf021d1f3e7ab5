"""Kinds, schemas and object metadata, independent of any group. No I/O.

Objects are plain ``dict`` trees as decoded from JSON. The code that decodes an object owns it and may change
it in place; caches and stores hold bytes, so shared objects can't be changed by accident.
"""
