"""The embedded cluster's pure half: API store, kubelet and Job behaviour, cluster files."""
