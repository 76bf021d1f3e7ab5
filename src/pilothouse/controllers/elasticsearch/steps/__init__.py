"""What is done next: each module decides the next step of one kind of change, from what is observed and
desired."""
