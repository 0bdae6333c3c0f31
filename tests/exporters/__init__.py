"""Specifications of exporters."""
