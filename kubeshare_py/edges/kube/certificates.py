"""A certificate authority and a server certificate for this machine, made on the spot.

For the embedded API server, the scheduler's own HTTPS endpoint and the webhook. Files: `ca.crt`,
`server.crt`, `server.key` (readable by the owner only). Existing files are used again.
"""

import ipaddress
import os
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

VALID = timedelta(days=365)
_EARLIER = timedelta(hours=1)
#: The most characters of a common name (RFC 5280); only the other names are checked anyway.
_MAX_NAME = 64


@dataclass(frozen=True, slots=True)
class Certificates:
    """The paths of the three files."""

    ca_file: Path
    certificate_file: Path
    key_file: Path

    def server_context(self) -> ssl.SSLContext:
        """A server's context: HTTP/1.1 over TLS 1.2 or newer."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(self.certificate_file, self.key_file)
        context.set_alpn_protocols(["http/1.1"])
        return context

    def client_context(self) -> ssl.SSLContext:
        """A client's context that trusts only this authority."""
        return ssl.create_default_context(cafile=str(self.ca_file))


def make_certificates(
    directory: Path, names: tuple[str, ...] = ("localhost",), valid: timedelta = VALID
) -> Certificates:
    """The files in `directory`, made if any is missing; for `names`, 127.0.0.1 and ::1."""
    directory.mkdir(parents=True, exist_ok=True)
    files = Certificates(directory / "ca.crt", directory / "server.crt", directory / "server.key")
    if not all(path.exists() for path in (files.ca_file, files.certificate_file, files.key_file)):
        _write(files, names, valid)
    return files


@dataclass(frozen=True, slots=True)
class Authority:
    """Signs certificates; its key is in memory only."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    def pem(self) -> str:
        """Its certificate."""
        return self.certificate.public_bytes(serialization.Encoding.PEM).decode()

    def issue(
        self,
        subject: x509.Name,
        usage: x509.ObjectIdentifier,
        valid: timedelta,
        names: Sequence[x509.GeneralName] = (),
    ) -> tuple[str, str]:
        """A certificate for a new key, and the key, as PEM.

        `usage` is one of ExtendedKeyUsageOID; `names` are subject alternative names.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        made = (
            _builder(subject, self.certificate.subject, key, valid)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(signs=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key()),
                critical=False,
            )
        )
        if names:
            made = made.add_extension(x509.SubjectAlternativeName(names), critical=False)
        pem = serialization.Encoding.PEM
        plain = serialization.NoEncryption()
        private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain)
        certificate = made.sign(self.key, hashes.SHA256()).public_bytes(pem)
        return certificate.decode(), private.decode()


def make_authority(name: str, valid: timedelta = VALID) -> Authority:
    """A new one with this common name; it signs certificates, and no further authorities."""
    key, subject = ec.generate_private_key(ec.SECP256R1()), common_name(name)
    certificate = (
        _builder(subject, subject, key, valid)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(signs=True), critical=True)
        .sign(key, hashes.SHA256())
    )
    return Authority(certificate, key)


def common_name(text: str) -> x509.Name:
    """A name that is this text alone."""
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def write_private(path: Path, text: str) -> Path:
    """Write a file that only its owner may read."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    return path


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, valid: timedelta
) -> x509.CertificateBuilder:
    """A certificate that is valid from an hour ago, for clocks that are late."""
    public, now = key.public_key(), datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _EARLIER)
        .not_valid_after(now + valid)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
    )


def _key_usage(*, signs: bool) -> x509.KeyUsage:
    """Of an authority's key, which `signs` certificates, or of another's."""
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )


def _write(files: Certificates, names: tuple[str, ...], valid: timedelta) -> None:
    authority = make_authority("kubeshare-py test authority", valid)
    alternatives: list[x509.GeneralName] = [x509.DNSName(name) for name in names]
    alternatives += [x509.IPAddress(ipaddress.ip_address(one)) for one in ("127.0.0.1", "::1")]
    subject, usage = common_name(names[0][:_MAX_NAME]), ExtendedKeyUsageOID.SERVER_AUTH
    certificate, key = authority.issue(subject, usage, valid, alternatives)
    files.ca_file.write_text(authority.pem())
    files.certificate_file.write_text(certificate)
    write_private(files.key_file, key)
