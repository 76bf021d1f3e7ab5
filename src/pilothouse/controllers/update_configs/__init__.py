"""UpdateConfigs: when to check a channel, and which Plan its offer makes.

Decisions only: the checks themselves are made by an observer, which answers in the status.
"""
