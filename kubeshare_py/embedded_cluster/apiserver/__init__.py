"""The API server as a function of requests."""
