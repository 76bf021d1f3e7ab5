"""The simulator: the real API server and controllers, with simulated nodes and pilots, in one seeded process.

Time is virtual, randomness is seeded, faults are injected, and a run can be repeated by its seed. It is a
public test kit for authors of controllers (``docs/simulator.md``). ``plan_forecast`` runs an update plan on a
copy of a live cluster. Only ``live_node`` joins a live server.
"""
