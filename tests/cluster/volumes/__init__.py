"""Specifications of cluster.volumes."""
