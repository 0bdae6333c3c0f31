"""Specifications of manifests."""
