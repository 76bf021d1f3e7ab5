"""A fleet in a bottle: the real API server, the real controllers, modelled nodes and pilots, in one seeded process.

Time is virtual, chance is seeded, faults are put in on purpose, and what happened can be told again by its seed. It is a
public test kit: whoever writes a controller can put it in here (``docs/simulator.md``). Nothing in it waits for a clock, a
disk or a network; ``node`` alone joins a live server.
"""
