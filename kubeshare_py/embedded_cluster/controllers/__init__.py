"""The controllers of a cluster: Deployments, Jobs, disruption, garbage collection."""
