"""GPUs that the kubelet gives out: how many, and which cards, as far as agents name them."""
