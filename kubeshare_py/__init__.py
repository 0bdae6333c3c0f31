"""kubeshare-py: a Kubernetes scheduler that shares GPUs between pods."""
