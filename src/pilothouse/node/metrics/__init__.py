"""The node's metrics: resource usage of pods, volumes, disks and storage pools, and counted lines of logs.

Read-only.
"""
