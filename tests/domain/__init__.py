"""Specifications of domain."""
