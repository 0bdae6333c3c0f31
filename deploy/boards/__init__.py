"""The chart's Grafana boards, and what writes them as JSON."""
