"""Specifications of manifests.volumes."""
