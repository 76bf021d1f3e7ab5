"""The controller runtime: runs pure decision functions against an API server.

A controller is a pure function ``(object, world) -> intents``. This package builds the snapshot that it sees,
executes its intents under the leader's fence, reconciles again when something changes, and records what was
decided and why. It knows no kind and no controller, and reaches the API server through ``client`` alone.
"""
