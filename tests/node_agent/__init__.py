"""Judging what drivers say."""
