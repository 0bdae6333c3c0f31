"""Cambricon's MLUs, as HAMi and its ancestor share them."""
