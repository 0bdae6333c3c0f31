"""The plugins of kube-scheduler, by its names: one file each, asked about columns."""
