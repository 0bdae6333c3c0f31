"""Specifications of cluster."""
