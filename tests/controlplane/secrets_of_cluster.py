"""Certificates, tokens and kubeconfigs of a control plane, made for one run."""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from kubeshare_py.edges.kube.certificates import Certificates, make_certificates, write_private
from kubeshare_py.embedded_cluster.serving.credentials import (
    ClientAuthority,
    certificate_kubeconfig_text,
    kubeconfig_text,
    make_client_authority,
)
from kubeshare_py.embedded_cluster.serving.server import ADMIN

CONTROLLERS = "system:kube-controller-manager"
#: Groups beyond system:authenticated, of users that are no ServiceAccounts.
FRONT_PROXY = "front-proxy-client"
_GROUPS: Mapping[str, tuple[str, ...]] = {ADMIN: ("system:masters",), CONTROLLERS: ()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Secrets:
    """Where the files are, and each user's token.

    `clients` signs users' certificates, another authority that of kube-apiserver's own proxy.
    """

    certificates: Certificates
    token_file: Path
    account_key: Path
    account_public_key: Path
    tokens: Mapping[str, str]
    clients: ClientAuthority
    clients_file: Path
    proxies_file: Path
    proxy_file: Path

    def write_client_kubeconfig(self, path: Path, url: str, user: str, *groups: str) -> Path:
        """For a user with a client certificate and no token."""
        pair = self.clients.write_client(path.with_suffix(".pem"), user, groups)
        authority = self.certificates.ca_file.read_bytes()
        return write_private(path, certificate_kubeconfig_text(url, authority, user, pair))

    def write_kubeconfig(self, path: Path, url: str, user: str) -> Path:
        """For a user, in a file that only its owner may read."""
        authority = self.certificates.ca_file.read_bytes()
        return write_private(path, kubeconfig_text(url, authority, user, self.tokens[user]))


def make_secrets(folder: Path) -> Secrets:
    """Make them in a new folder."""
    certificates = make_certificates(folder)
    tokens = {user: secrets.token_urlsafe(24) for user in _GROUPS}
    lines = (
        f'{tokens[user]},{user},{user},"{",".join(groups)}"' for user, groups in _GROUPS.items()
    )
    private, public = folder / "accounts.key", folder / "accounts.pub"
    _write_key_pair(private, public)
    clients, proxies = make_client_authority("clients"), make_client_authority("front-proxies")
    return Secrets(
        certificates=certificates,
        token_file=write_private(folder / "tokens.csv", "\n".join(lines) + "\n"),
        account_key=private,
        account_public_key=public,
        tokens=tokens,
        clients=clients,
        clients_file=write_private(folder / "clients.crt", clients.pem()),
        proxies_file=write_private(folder / "front-proxies.crt", proxies.pem()),
        proxy_file=proxies.write_client(folder / "front-proxy.pem", FRONT_PROXY),
    )


def _write_key_pair(private: Path, public: Path) -> None:
    """Sign and check the tokens of ServiceAccounts."""
    key = ec.generate_private_key(ec.SECP256R1())
    pem = serialization.Encoding.PEM
    plain = key.private_bytes(
        pem, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
    write_private(private, plain.decode())
    subject = serialization.PublicFormat.SubjectPublicKeyInfo
    public.write_bytes(key.public_key().public_bytes(pem, subject))
