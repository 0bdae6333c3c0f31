"""kubelet's gRPC services on this node: device plugins, and which pod has which devices."""
