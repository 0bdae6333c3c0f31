"""Certificates of clients, and the authority that signs them: for the embedded cluster and tests.

The common name is the user, organizations are the groups, as Kubernetes reads them:
https://kubernetes.io/docs/reference/access-authn-authz/authentication/#x509-client-certificates
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from kubeshare_py.edges.kube.certificates import VALID, builder, key_usage
from kubeshare_py.embedded_cluster.serving.kubeconfigs import write_private


@dataclass(frozen=True, slots=True)
class ClientAuthority:
    """Signs certificates of clients; its key is in memory only."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    def pem(self) -> str:
        """Its certificate."""
        return self.certificate.public_bytes(serialization.Encoding.PEM).decode()

    def write_client(
        self, path: Path, user: str, groups: tuple[str, ...] = (), valid: timedelta = VALID
    ) -> Path:
        """A certificate and its key in one file that only its owner may read."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name(
            [
                *(x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups),
                x509.NameAttribute(NameOID.COMMON_NAME, user),
            ]
        )
        until = datetime.now(UTC) + valid
        certificate = (
            builder(subject, self.certificate.subject, key, until)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(key_usage(signs=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key()),
                critical=False,
            )
            .sign(self.key, hashes.SHA256())
        )
        pem = serialization.Encoding.PEM
        plain = key.private_bytes(
            pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return write_private(path, (certificate.public_bytes(pem) + plain).decode())


def make_client_authority(name: str) -> ClientAuthority:
    """A new one with this common name."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    certificate = (
        builder(subject, subject, key, datetime.now(UTC) + VALID)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(key_usage(signs=True), critical=True)
        .sign(key, hashes.SHA256())
    )
    return ClientAuthority(certificate, key)
