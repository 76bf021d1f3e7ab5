"""What a container costs beside its program."""
