"""Schedulers side by side on one real API server: bare Bindings, kube-scheduler and ours."""
