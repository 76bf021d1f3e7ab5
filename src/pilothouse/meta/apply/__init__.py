"""Changing objects: server-side apply, managed fields, JSON patch, merge patch and strategic merge patch."""
