"""Runs in which everything between scheduler and API server goes wrong, judged by own books."""
