"""Kubeconfig files and exec plugins for tests, with certificates of their own."""

import base64
import datetime
import json
import stat
import sys
from pathlib import Path
from typing import Any

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

V1 = "client.authentication.k8s.io/v1"


def pem_pair(name: str = "test") -> tuple[str, str]:
    """A self-signed certificate and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    start = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(start)
        .not_valid_after(start + datetime.timedelta(days=36500))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    secret = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return certificate.public_bytes(serialization.Encoding.PEM).decode(), secret.decode()


CERTIFICATE, KEY = pem_pair()


def in_base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def write(
    folder: Path,
    user: object,
    cluster: dict[str, object] | None = None,
    *,
    name: str = "config",
    context: str = "ctx",
    **fields: str,
) -> str:
    """A kubeconfig with one context; gives its path."""
    there = {"server": "https://one:6443"} | (cluster or {})
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": context,
        "contexts": [{"name": context, "context": {"cluster": "c", "user": "u", **fields}}],
        "clusters": [{"name": "c", "cluster": there}],
        "users": [{"name": "u", "user": user}],
    }
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(yaml.safe_dump(config))
    return str(path)


def program(folder: Path, body: str, name: str = "plugin") -> Path:
    """An executable Python script."""
    path = folder / name
    path.write_text(f"#!{sys.executable}\n{body}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def exec_credential(version: str = V1, **status: str) -> str:
    return json.dumps({"apiVersion": version, "kind": "ExecCredential", "status": status})


def plugin(folder: Path, text: str, version: str = V1, **fields: Any) -> dict[str, Any]:
    """An exec plugin that prints `text`; the user section that names it."""
    command = str(program(folder, f"print({text!r})"))
    return {"exec": {"apiVersion": version, "command": command, **fields}}


def token_until(seconds: int) -> str:
    """A JSON web token, whose signature is not checked here."""
    claims = base64.urlsafe_b64encode(json.dumps({"exp": seconds}).encode()).decode().rstrip("=")
    return f"e30.{claims}.sig"
