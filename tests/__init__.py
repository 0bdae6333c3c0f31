"""Specifications; the folders mirror the rooms."""
