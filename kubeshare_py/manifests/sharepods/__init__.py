"""KubeShare 1.0's SharePods as Kubernetes JSON: read, and written as pods, status and events."""
