"""The controller of SharePods at work: what it watches, what it writes, what it serves."""
