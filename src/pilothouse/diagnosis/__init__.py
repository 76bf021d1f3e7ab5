"""The reasoning behind ``pilothouse why``: what is wrong with an object, since when, and what would help.

``collector`` reads the object, its owners, its dependents and their Decisions from the API, and draws no
conclusions. ``findings`` holds what was read. ``explanation`` turns that into text and does no I/O. Nothing
here knows a controller by name: the caller passes in the list of controllers.
"""
