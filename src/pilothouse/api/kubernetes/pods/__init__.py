"""Pods, and the templates that pods are made from: defaults, validation, what may change, how they are shown."""
