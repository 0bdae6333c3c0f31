"""Specifications of plugins."""
