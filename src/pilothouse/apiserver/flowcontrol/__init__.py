"""How many requests of whom are executed at the same time."""
