"""Of SharePods."""
