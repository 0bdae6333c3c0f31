"""Authorities and server certificates of our own, and the API server's trust in them."""

import asyncio
import base64
import binascii
import ipaddress
import os
import re
import ssl
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from kubeshare_py.configuration.scheduler import ConfigurationError
from kubeshare_py.edges.kube.client import JSON_PATCH, KubeClient, Object
from kubeshare_py.edges.kube.errors import KubeError, KubeFailure
from kubeshare_py.edges.process import decision_log
from kubeshare_py.manifests.api_paths import path_segment

# A certificate authority and a server certificate for this machine, made on the spot.
#
# For the embedded API server, the scheduler's own HTTPS endpoint and the webhook. Files: `ca.crt`,
# `server.crt`, `server.key` (readable by the owner only). Existing files are used again.


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
    """The allowed uses of an authority's key, which `signs` certificates, or of another key."""
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


# A server's certificate from files that another program renews, such as cert-manager.


CHECK_S = 30.0


class CertificateFiles:
    """The context of a server; renewed files are used for new connections."""

    def __init__(self, certificate: str, key: str, setting: str = "--certificate-file") -> None:
        """Raises ConfigurationError, which names the setting, for unusable files.

        Without a key file, the key is in the certificate's file.
        """
        self._paths = (Path(certificate), Path(key or certificate))
        self.context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        try:
            self._used = self._read()
            self.context.load_cert_chain(*self._paths)
        except (OSError, ssl.SSLError) as error:
            raise ConfigurationError(f"{setting} {certificate}: {error}") from error

    @property
    def problem(self) -> str:
        """Nothing that a probe should report: a certificate was loaded."""
        return ""

    async def keep(self, check_s: float = CHECK_S) -> None:
        """Check the files again and again, until cancelled."""
        while True:
            await asyncio.sleep(check_s)
            self.load_again()

    def load_again(self) -> None:
        """Load the files if they changed; bad ones are not used."""
        try:
            read = self._read()
            if read == self._used:
                return
            self.context.load_cert_chain(*self._paths)
        except (OSError, ssl.SSLError) as error:
            decision_log.warn("certificate", message=f"{self._paths[0]}: {error}")
            return
        self._used = read
        decision_log.inform("certificate", message=f"{self._paths[0]} was read again")

    def _read(self) -> tuple[bytes, ...]:
        return tuple(path.read_bytes() for path in self._paths)


# A self-made server certificate, and the API server's trust in it.
#
# A process creates an authority and a certificate that live for a day, adds the authority to
# `caBundle` of the object by which the API server calls it (a MutatingWebhookConfiguration, an
# APIService), and only then uses the certificate; before the end it does so again. No key leaves
# the process, so replicas need no common Secret. Rights: get and patch on that one object.


# The authorities that an API server trusts when it calls a webhook: concatenated PEM.
#
# Each process of the webhook is its own authority and keeps its keys; a bundle has them all.


#: More than the replicas and the restarts of a day. The newest are kept, and a live process whose
#: own one is dropped adds it again.
MAX = 32

_CERTIFICATE = re.compile(rb"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)


def with_authority(bundle: bytes, own: bytes, now: datetime) -> bytes:
    """The bundle with `own`, without expired, duplicate and invalid certificates."""
    found: dict[x509.Certificate, None] = {}
    for text in (*_CERTIFICATE.findall(bundle), own):
        try:
            certificate = x509.load_pem_x509_certificate(text)
        except ValueError:
            continue
        if certificate.not_valid_after_utc > now:
            found[certificate] = None
    kept = sorted(found, key=lambda one: one.not_valid_before_utc)[-MAX:]
    return b"".join(one.public_bytes(Encoding.PEM) for one in kept)


CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
API_SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
_MAX_DOUBLED = 8
#: The most immediate attempts when others write the object, and the API server's statuses for that:
#: 422 for a failed test of a JSON patch, 409 for an outdated version.
_TRIES = 3
_OVERTAKEN = (HTTPStatus.CONFLICT, HTTPStatus.UNPROCESSABLE_ENTITY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """The lifetime of a certificate, when the next one is made, and the times between (s).

    `settle_s` is the time for API servers to notice a new authority, `check_s` the interval of
    checks that ours is still in the bundle, `retry_s` the time after a failure, doubled after each
    further one.
    """

    valid: timedelta = timedelta(days=1)
    renew_after: timedelta = timedelta(hours=16)
    settle_s: float = 5.0
    check_s: float = 30.0
    retry_s: float = 2.0


@dataclass(frozen=True, slots=True)
class Caller:
    """The object by which the API server calls us: its path, and its bundles by JSON pointer.

    A bundle is base64, "" if there is none yet.
    """

    path: str
    bundles: Callable[[Object], Iterable[tuple[str, str]]]


def webhooks(name: str) -> Caller:
    """The MutatingWebhookConfiguration of this name."""

    def bundles(found: Object) -> Iterable[tuple[str, str]]:
        for index, webhook in enumerate(found.get("webhooks") or []):
            where = f"/webhooks/{index}/clientConfig/caBundle"
            yield where, webhook["clientConfig"].get("caBundle", "")

    return Caller(f"{CONFIGURATIONS}/{path_segment(name)}", bundles)


def api_service(name: str) -> Caller:
    """The APIService of this name; one that skips TLS verification is left as it is."""

    def bundles(found: Object) -> Iterable[tuple[str, str]]:
        if not found["spec"].get("insecureSkipTLSVerify"):
            yield "/spec/caBundle", found["spec"].get("caBundle") or ""

    return Caller(f"{API_SERVICES}/{path_segment(name)}", bundles)


class SelfSignedCa:
    """The certificates of one process for `names`; files are made below `folder`."""

    def __init__(
        self,
        client: KubeClient,
        caller: Caller | None,
        names: tuple[str, ...],
        folder: Path,
        pace: Pace,
    ) -> None:
        """Without a `caller` no object is patched, but certificates are renewed all the same."""
        self._client = client
        self._caller = caller
        self._failures, self._is_missing = 0, False
        self._names = names
        self._folder = folder
        self._pace = pace
        self._made = 0
        self._problem = "the API server does not know this authority yet"
        self._files, self._made_at = self._make()
        self._next: tuple[Certificates, datetime] | None = None
        self.context: ssl.SSLContext = self._files.server_context()

    @property
    def problem(self) -> str:
        """Why the API server may not trust the certificate now; "" if it does."""
        return self._problem

    async def keep(self, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        """Keep the authority trusted, and renew it in time, until cancelled."""
        while True:
            await sleep(await self._step(sleep))

    async def _step(self, sleep: Callable[[float], Awaitable[None]]) -> float:
        if self._next is None and datetime.now(UTC) - self._made_at >= self._pace.renew_after:
            self._next = self._make()
        files, _ = self._next or (self._files, self._made_at)
        try:
            is_published = await self._publish(files.ca_file.read_bytes())
        except KubeFailure as failure:
            self._problem = "the API server could not be given this authority"
            self._complain(failure)
            self._failures += 1
            return self._again_s()
        self._failures, self._is_missing = 0, False
        if is_published:
            decision_log.inform("certificate", message="the API server trusts it")
            await sleep(self._pace.settle_s)
        if self._next is not None:
            self.context.load_cert_chain(files.certificate_file, files.key_file)
            self._files, self._made_at = self._next
            self._next = None
        self._problem = ""
        return self._pace.check_s

    def _make(self) -> tuple[Certificates, datetime]:
        self._made += 1
        folder = self._folder / str(self._made)
        return make_certificates(folder, self._names, self._pace.valid), datetime.now(UTC)

    async def _publish(self, authority: bytes) -> bool:
        """Add the authority where it is missing; whether it was missing. Raises KubeFailure.

        Others write the object too: other replicas, and API servers its status. Concurrent writes
        are read again at once.
        """
        for _ in range(_TRIES - 1):
            try:
                return await self._publish_once(authority)
            except KubeError as error:
                if error.status not in _OVERTAKEN:
                    raise
        return await self._publish_once(authority)

    async def _publish_once(self, authority: bytes) -> bool:
        """One attempt; the patch's test keeps concurrent writers from undoing each other's work."""
        if self._caller is None:
            return False
        found = await self._client.get(self._caller.path)
        version = found["metadata"]["resourceVersion"]
        patch: list[dict[str, Any]] = [
            {"op": "test", "path": "/metadata/resourceVersion", "value": version}
        ]
        for where, bundle in self._caller.bundles(found):
            before = _decoded(bundle)
            after = with_authority(before, authority, datetime.now(UTC))
            if after != before:
                value = base64.b64encode(after).decode()
                patch.append({"op": "add", "path": where, "value": value})
        if len(patch) == 1:
            return False
        await self._client.request("PATCH", self._caller.path, body=patch, content_type=JSON_PATCH)
        return True

    def _again_s(self) -> float:
        """Seconds to wait after this many failures in a row."""
        times: int = 2 ** min(self._failures - 1, _MAX_DOUBLED)
        return min(self._pace.retry_s * times, self._pace.check_s)

    def _complain(self, failure: KubeFailure) -> None:
        """Log a failure; a missing object may be created later, and is logged once."""
        path = self._caller.path if self._caller is not None else ""
        missing = isinstance(failure, KubeError) and failure.status == HTTPStatus.NOT_FOUND
        if not missing:
            self._client.contact.failed("certificate", failure, path, problem=self._problem)
        elif not self._is_missing:
            self._is_missing = True
            decision_log.inform("certificate", message=f"{self._problem}: {failure}")


def _decoded(bundle: str) -> bytes:
    try:
        return base64.b64decode(bundle)
    except binascii.Error:
        return b""
