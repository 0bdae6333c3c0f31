"""SharePods and the pods behind them: a pure reconciler, its events and its effects."""
