"""Writing kubeconfig files for the embedded cluster."""

import base64
from pathlib import Path

import yaml


def kubeconfig_text(url: str, authority: bytes, user: str, token: str) -> str:
    """One cluster, one user with a bearer token, one context `kubeshare`."""
    return _text(url, authority, user, {"token": token})


def certificate_kubeconfig_text(url: str, authority: bytes, user: str, pair: Path) -> str:
    """The same for a user with a certificate; `pair` is a file of certificate and key."""
    encoded = base64.b64encode(pair.read_bytes()).decode()
    shown = {"client-certificate-data": encoded, "client-key-data": encoded}
    return _text(url, authority, user, shown)


def _text(url: str, authority: bytes, user: str, credentials: dict[str, str]) -> str:
    encoded = base64.b64encode(authority).decode()
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {
                    "name": "kubeshare",
                    "cluster": {"server": url, "certificate-authority-data": encoded},
                }
            ],
            "users": [{"name": user, "user": credentials}],
            "contexts": [
                {
                    "name": "kubeshare",
                    "context": {"cluster": "kubeshare", "user": user, "namespace": "default"},
                }
            ],
            "current-context": "kubeshare",
        }
    )
