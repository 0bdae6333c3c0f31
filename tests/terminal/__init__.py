"""Specifications of terminal."""
