"""Containers that end with the test."""

from tests.kit.containers import bare, box, views

__all__ = ["bare", "box", "views"]
