"""The result of one reading of a kubeconfig or a service account, and its TLS context."""

import ssl
import tempfile
from dataclasses import dataclass, field
from pathlib import Path


class KubeConfigError(Exception):
    """Credentials cannot be used; the text names the file and the problem."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeReading:
    """An API server's address, the trusted authority, and the credentials for it.

    `valid_s`: for how many seconds it may be used; None means until the server answers 401. `ca`
    and `client_certificate` (certificate and key) are PEM. `impersonation` are request headers:
    https://kubernetes.io/docs/reference/access-authn-authz/user-impersonation/
    """

    server: str
    authorization: str | None = field(default=None, repr=False)
    ca: str | None = None
    client_certificate: bytes | None = field(default=None, repr=False)
    verify: bool = True
    server_hostname: str | None = None
    proxy: str | None = field(default=None, repr=False)
    valid_s: float | None = None
    impersonation: tuple[tuple[str, str], ...] = ()


def tls_context(reading: KubeReading, source: str) -> ssl.SSLContext:
    """A context that trusts the reading's authority, or the system's if it names none.

    Raises KubeConfigError, naming `source`, for certificates and keys that OpenSSL refuses.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # On by default from Python 3.13, and many cluster CAs lack the extensions that it demands.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.set_alpn_protocols(["http/1.1"])
    if not reading.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif reading.ca is None:
        context.load_default_certs()
    load_certificates(context, reading, source)
    return context


def load_certificates(context: ssl.SSLContext, reading: KubeReading, source: str) -> None:
    """Load CA and client certificate; on a context in use this affects new connections.

    Raises KubeConfigError.
    """
    try:
        if reading.ca is not None:
            context.load_verify_locations(cadata=reading.ca)
        if reading.client_certificate is not None:
            with tempfile.TemporaryDirectory(prefix="kubeshare-") as folder:
                pair = Path(folder) / "client.pem"
                pair.write_bytes(reading.client_certificate)
                # Without a password OpenSSL would ask for one on the terminal.
                context.load_cert_chain(pair, password="")
    except (ssl.SSLError, ValueError) as error:
        raise KubeConfigError(f"{source}: unusable certificate or key ({error})") from error
