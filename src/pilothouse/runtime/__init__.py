"""How decisions become acts.

A controller is a pure function ``(object, world) -> intents``. This package shows it the world, carries its intents
out under the leader's fence, looks again when something changed, and records what was decided and why. It knows no
kind and no controller, and reaches the API server through ``client`` alone.
"""
