"""Pilothouse: a control plane for stateful applications behind one Kubernetes-style API.

Imports go downward only: cli, app, sim, the components, runtime, client, api and store, meta, supervise and
pki, aio, base.
The contracts are checked by import-linter (see pyproject.toml).
"""

__version__ = "0.1.0"
