"""Whether a user may do what a request asks for."""
