"""Credentials for one API server: where it is, whom TLS trusts, and an Authorization header that
renews itself.
"""

import asyncio
import logging
import ssl
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass

#: A renewal that failed is tried again after this long; nothing is renewed more often.
RETRY_S = 10.0

_log = logging.getLogger(__name__)


class KubeConfigError(Exception):
    """Credentials cannot be used; the text names the file and what is wrong with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What one reading of the files gave.

    `valid_s` says for how many seconds it may be used; None means until the server answers 401.
    """

    server: str
    authorization: str | None = None
    ca: str | None = None
    client_certificate: bytes | None = None
    verify: bool = True
    server_hostname: str | None = None
    proxy: str | None = None
    valid_s: float | None = None


class Credentials:
    """How to reach one API server: its URL, the TLS context, the current Authorization header."""

    def __init__(self, source: str, read: Callable[[], Reading]) -> None:
        """Read once, now. `read` runs in a thread for each renewal and raises KubeConfigError."""
        self._source = source
        self._read = read
        self._reading = read()
        self._fresh_until: float | None = None
        self._renewed_at = float("-inf")
        self._renewing = asyncio.Lock()
        self._headers = _headers(self._reading)
        self.server: str = self._reading.server
        self.proxy: str | None = self._reading.proxy
        self.server_hostname: str | None = self._reading.server_hostname
        self.ssl_context: ssl.SSLContext = _tls(self._reading, source)

    async def headers(self) -> dict[str, str]:
        """Give the Authorization header (none with client certificates), renewed when due."""
        now = asyncio.get_running_loop().time()
        if self._fresh_until is None:
            self._fresh_until = _until(now, self._reading)
        if now >= self._fresh_until:
            async with self._renewing:
                if now >= self._fresh_until:
                    await self._renew()
        return self._headers

    async def renew(self, refused: Mapping[str, str]) -> bool:
        """Read again after a 401 for the headers `refused`; True if there are others to try."""
        async with self._renewing:
            now = asyncio.get_running_loop().time()
            if self._headers == refused and now >= self._renewed_at + RETRY_S:
                await self._renew()
        return self._headers != refused

    async def _renew(self) -> None:
        """Take over a new reading; if there is none, keep the old one and say so."""
        now = self._renewed_at = asyncio.get_running_loop().time()
        try:
            new, old = await asyncio.to_thread(self._read), self._reading
            if (new.ca, new.client_certificate) != (old.ca, old.client_certificate):
                _trust(self.ssl_context, new, self._source)
        except KubeConfigError as error:
            _log.warning("credentials not renewed: %s", error)
            self._fresh_until = now + RETRY_S
            return
        self._reading, self._headers = new, _headers(new)
        self._fresh_until = max(_until(now, new), now + RETRY_S)


def _until(now: float, reading: Reading) -> float:
    return float("inf") if reading.valid_s is None else now + reading.valid_s


def _headers(reading: Reading) -> dict[str, str]:
    return {} if reading.authorization is None else {"Authorization": reading.authorization}


def _tls(reading: Reading, source: str) -> ssl.SSLContext:
    context = ssl.create_default_context()
    # On by default from Python 3.13, and many cluster CAs lack the extensions that it demands.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if not reading.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    _trust(context, reading, source)
    return context


def _trust(context: ssl.SSLContext, reading: Reading, source: str) -> None:
    """Load CA and client certificate; on a context in use this affects new connections."""
    try:
        if reading.ca is not None:
            context.load_verify_locations(cadata=reading.ca)
        if reading.client_certificate is not None:
            with tempfile.NamedTemporaryFile(suffix=".pem") as file:
                file.write(reading.client_certificate)
                file.flush()
                # Without a password OpenSSL would ask for one on the terminal.
                context.load_cert_chain(file.name, password="")
    except (ssl.SSLError, ValueError) as error:
        raise KubeConfigError(f"{source}: unusable certificate or key ({error})") from error
