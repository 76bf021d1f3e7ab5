"""Pods and pod templates: defaults, validation, updates, columns."""
