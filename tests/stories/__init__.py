"""Specifications of stories."""
