"""Kubelets, cards and collectors of simulated nodes."""
