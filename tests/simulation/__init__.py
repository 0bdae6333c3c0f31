"""Specifications of simulation."""
