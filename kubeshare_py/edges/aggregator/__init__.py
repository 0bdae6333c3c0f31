"""KubeShare 2.0's `gpu_requirement`: pods from the API server, and a page for Prometheus."""
