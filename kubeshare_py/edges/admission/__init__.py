"""The webhook's server."""
