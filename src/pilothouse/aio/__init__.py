"""Asyncio kits that could be libraries of their own. They know nothing of objects or stores."""
