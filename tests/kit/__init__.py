"""The parts that tests stand on: real servers and clients as processes, and thin ways to talk to them.

Nothing here knows what is being tested; nothing here asserts. A part that can't be had says how to get it.
"""
