"""Specifications of domain.needs."""
