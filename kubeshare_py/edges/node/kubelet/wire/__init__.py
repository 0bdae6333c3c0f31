"""Messages of kubelet's gRPC services; `python -m tests.kubelet.generated` makes the modules."""
