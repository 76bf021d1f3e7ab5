"""Reads container logs.

The files are in the format of the Container Runtime Interface, one record a line, written and rotated by the container's shim.
Nothing here knows what a pod is, and nothing is ever written.
"""
