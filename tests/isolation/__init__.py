"""Specifications of isolation."""
