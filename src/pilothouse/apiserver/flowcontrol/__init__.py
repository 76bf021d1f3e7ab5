"""How many requests and streams each user may have at the same time."""
