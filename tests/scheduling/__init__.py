"""Specifications of scheduling."""
