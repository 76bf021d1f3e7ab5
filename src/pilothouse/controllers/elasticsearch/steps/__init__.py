"""The next steps: each module decides about one kind of change, from observed and desired state."""
