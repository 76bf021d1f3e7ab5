"""Reads container logs: files in the format of the Container Runtime Interface, one record a line, written
and rotated by the container's shim. Independent of pods; nothing is written."""
