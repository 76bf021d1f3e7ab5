"""What a pilot costs beside its database."""
