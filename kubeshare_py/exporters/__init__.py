"""What we tell Prometheus: samples as values, nothing about HTTP."""
