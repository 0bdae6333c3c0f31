"""Specifications of edges."""
