"""Specifications of programs."""
