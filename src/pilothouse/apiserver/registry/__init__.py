"""Kinds with a strategy of their own: their creation, update and deletion, and their subresources."""
