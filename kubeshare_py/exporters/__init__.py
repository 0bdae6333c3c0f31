"""Metrics for Prometheus: samples as values, without HTTP."""
