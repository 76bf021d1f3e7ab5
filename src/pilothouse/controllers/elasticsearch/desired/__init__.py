"""What a cluster asks for: its pools, and the objects that they should have. Pure functions of its spec."""
