"""Requests that Kubernetes' own components send to this project's servers, and the answers."""
