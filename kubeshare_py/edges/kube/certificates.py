"""A certificate authority and a server certificate for this machine, made on the spot.

For the embedded API server, the scheduler's own HTTPS endpoint and the webhook. Files: `ca.crt`,
`server.crt`, `server.key` (readable by the owner only). Existing files are used again.
"""

import ipaddress
import os
import ssl
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

VALID = timedelta(days=365)
_EARLIER = timedelta(hours=1)
#: Of a common name, in characters (RFC 5280); only the other names are looked at anyway.
_MOST_NAME = 64


@dataclass(frozen=True, slots=True)
class Certificates:
    """Where the three files are."""

    ca_file: Path
    certificate_file: Path
    key_file: Path

    def server_context(self) -> ssl.SSLContext:
        """For a server: HTTP/1.1 over TLS 1.2 or newer."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(self.certificate_file, self.key_file)
        context.set_alpn_protocols(["http/1.1"])
        return context

    def client_context(self) -> ssl.SSLContext:
        """For a client that trusts this authority and nobody else."""
        return ssl.create_default_context(cafile=str(self.ca_file))


def make_certificates(
    directory: Path, names: tuple[str, ...] = ("localhost",), valid: timedelta = VALID
) -> Certificates:
    """The files in `directory`, made if any is missing; valid for `names` and 127.0.0.1."""
    directory.mkdir(parents=True, exist_ok=True)
    files = Certificates(directory / "ca.crt", directory / "server.crt", directory / "server.key")
    if not all(path.exists() for path in (files.ca_file, files.certificate_file, files.key_file)):
        _write(files, names, valid)
    return files


def builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, until: datetime
) -> x509.CertificateBuilder:
    """A certificate that is valid from an hour ago, for clocks that are late."""
    public = key.public_key()
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(datetime.now(UTC) - _EARLIER)
        .not_valid_after(until)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
    )


def key_usage(*, signs: bool) -> x509.KeyUsage:
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
    now = datetime.now(UTC)
    until = now + valid
    authority_key = ec.generate_private_key(ec.SECP256R1())
    authority_name = _name("kubeshare-py test authority")
    authority = (
        builder(authority_name, authority_name, authority_key, until)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(key_usage(signs=True), critical=True)
        .sign(authority_key, hashes.SHA256())
    )
    key = ec.generate_private_key(ec.SECP256R1())
    alternatives: list[x509.GeneralName] = [x509.DNSName(name) for name in names]
    alternatives.append(x509.IPAddress(ipaddress.ip_address("127.0.0.1")))
    certificate = (
        builder(_name(names[0][:_MOST_NAME]), authority_name, key, until)
        .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(key_usage(signs=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()),
            critical=False,
        )
        .sign(authority_key, hashes.SHA256())
    )
    files.ca_file.write_bytes(authority.public_bytes(serialization.Encoding.PEM))
    files.certificate_file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    _write_key(files.key_file, key)


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _write_key(path: Path, key: ec.EllipticCurvePrivateKey) -> None:
    text = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(text)
