"""Values the scheduler reasons about: no I/O, no clock, no Kubernetes JSON."""
