"""Specifications of framework."""
