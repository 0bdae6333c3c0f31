"""Certificates of clients, and the authority that signs them: for the embedded cluster and tests.

The common name is the user, organizations are the groups, as Kubernetes reads them:
https://kubernetes.io/docs/reference/access-authn-authz/authentication/#x509-client-certificates

`trustme` makes no such certificates: its subjects have one organization each, always.
"""

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from kubeshare_py.edges.kube.certificates import VALID, Authority, make_authority, write_private


@dataclass(frozen=True, slots=True)
class ClientAuthority:
    """Signs certificates of clients."""

    authority: Authority

    def pem(self) -> str:
        """Its certificate."""
        return self.authority.pem()

    def write_client(
        self, path: Path, user: str, groups: tuple[str, ...] = (), valid: timedelta = VALID
    ) -> Path:
        """A certificate and its key in one file that only its owner may read."""
        subject = x509.Name(
            [
                *(x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups),
                x509.NameAttribute(NameOID.COMMON_NAME, user),
            ]
        )
        pair = self.authority.issue(subject, ExtendedKeyUsageOID.CLIENT_AUTH, valid)
        return write_private(path, "".join(pair))


def make_client_authority(name: str) -> ClientAuthority:
    """A new authority with this common name."""
    return ClientAuthority(make_authority(name))
