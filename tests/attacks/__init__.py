"""Attacks on a running scheduler, each with exactly the rights of its role: docs/security.md."""
