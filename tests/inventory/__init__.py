"""Specifications of inventory."""
