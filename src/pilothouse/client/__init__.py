"""How everyone talks to an API server, ours or Kubernetes'. Knows neither stores nor the server's inside."""
