"""The Kubernetes API: credentials, requests, watches, certificates, who may read what."""
