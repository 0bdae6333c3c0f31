"""The Kubernetes API: credentials, requests, watches, certificates, access reviews."""
