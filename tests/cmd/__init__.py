"""Specifications of cmd."""
