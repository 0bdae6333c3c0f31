"""Kubernetes JSON to domain values and back; the only place that knows field paths."""
