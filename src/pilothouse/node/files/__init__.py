"""Directories that pods can write to: opened, measured and removed without following what is in them."""
