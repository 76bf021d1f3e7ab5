"""Connections, TLS, HTTP/1.1 and streams: everything between a socket and a request."""
