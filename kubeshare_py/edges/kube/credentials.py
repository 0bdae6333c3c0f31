"""Credentials for one API server: its address, the TLS context, and an Authorization header.

The header is renewed when it is due.
"""

import asyncio
import logging
import ssl
from collections.abc import Callable, Mapping

from kubeshare_py.edges.kube.credential_reading import (
    KubeConfigError,
    KubeReading,
    load_certificates,
    tls_context,
)

#: Seconds after a failed renewal, and the least seconds between two.
RETRY_S = 10.0

_log = logging.getLogger(__name__)


class Credentials:
    """How to reach one API server: its URL, the TLS context, the present Authorization header."""

    def __init__(
        self, source: str, read: Callable[[], KubeReading], reading: KubeReading | None = None
    ) -> None:
        """Read once, now, unless there is a `reading`.

        `read` runs in a thread for each renewal and raises KubeConfigError.
        """
        self._source = source
        self._read = read
        self._reading = reading or read()
        self._fresh_until: float | None = None
        self._renewed_at = float("-inf")
        self._renewing = asyncio.Lock()
        self._headers = _headers(self._reading)
        self.server: str = self._reading.server
        self.proxy: str | None = self._reading.proxy
        self.server_hostname: str | None = self._reading.server_hostname
        self.ssl_context: ssl.SSLContext = tls_context(self._reading, source)

    def another(self) -> "Credentials":
        """The same credentials for one more event loop, on which they are renewed independently.

        Both start from the last reading: an exec plugin is not run again.
        """
        return Credentials(self._source, self._read, self._reading)

    async def headers(self) -> dict[str, str]:
        """The Authorization header (none with client certificates), renewed when due."""
        now = asyncio.get_running_loop().time()
        if self._fresh_until is None:
            self._fresh_until = _until(now, self._reading)
        if now >= self._fresh_until:
            async with self._renewing:
                if now >= self._fresh_until:
                    await self._renew()
        return self._headers

    async def renew(self, refused: Mapping[str, str]) -> bool:
        """Read again after a 401 for the headers `refused`; whether there are others to try."""
        async with self._renewing:
            now = asyncio.get_running_loop().time()
            if self._headers == refused and now >= self._renewed_at + RETRY_S:
                await self._renew()
        return self._headers != refused

    async def _renew(self) -> None:
        """Use a new reading; if there is none, log that and keep the old one."""
        now = self._renewed_at = asyncio.get_running_loop().time()
        try:
            new, old = await asyncio.to_thread(self._read), self._reading
            if (new.ca, new.client_certificate) != (old.ca, old.client_certificate):
                load_certificates(self.ssl_context, new, self._source)
        except KubeConfigError as error:
            _log.warning("credentials not renewed: %s", error)
            self._fresh_until = now + RETRY_S
            return
        self._reading, self._headers = new, _headers(new)
        self._fresh_until = max(_until(now, new), now + RETRY_S)


def _until(now: float, reading: KubeReading) -> float:
    return float("inf") if reading.valid_s is None else now + reading.valid_s


def _headers(reading: KubeReading) -> dict[str, str]:
    return {} if reading.authorization is None else {"Authorization": reading.authorization}
