"""Specifications of dialects."""
