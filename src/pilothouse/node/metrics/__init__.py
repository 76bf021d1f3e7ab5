"""The node's metrics: resource usage of pods, volumes and disks. Read-only."""
