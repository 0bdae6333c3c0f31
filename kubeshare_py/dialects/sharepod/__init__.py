"""KubeShare 1.0: pods that ask by the annotations of a SharePod."""
