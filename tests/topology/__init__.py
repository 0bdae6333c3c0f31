"""Specifications of topology."""
