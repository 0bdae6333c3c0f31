"""Requests one collector's page over HTTP: the result is always a `ScrapedPage`."""

import asyncio
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import aiohttp

from kubeshare_py.edges.inventory.inventory_reports import ScrapeAccess, ScrapeStart
from kubeshare_py.exporters.gpu_capacity import PATH
from kubeshare_py.inventory.collector_page import ScrapedPage, no_answer, read_page
from kubeshare_py.inventory.targets import ScrapeTarget

#: The most seconds until a page has arrived, or an interval if that is shorter.
MAX_TIMEOUT_S = 4.0
#: Sixteen cards with all their metrics and links are 100 KB.
MAX_BYTES = 8 * 2**20
_PIECE = 2**16
_OK = 200
_OPENMETRICS = "application/openmetrics-text"
_HEADERS = {
    "Accept": f"{_OPENMETRICS};version=1.0.0,text/plain;version=0.0.4;q=0.5",
    "Accept-Encoding": "gzip",
    "User-Agent": "kubeshare-scheduler",
}


class _Refused(Exception):
    """The answer is no page; the text says why."""


@dataclass(slots=True)
class CollectorClient:
    """Requests pages of collectors; an async context manager."""

    start: ScrapeStart
    timeout_s: float = field(init=False)
    _session: aiohttp.ClientSession | None = None
    _context: tuple[tuple[int, int], ssl.SSLContext] | None = None

    def __post_init__(self) -> None:
        self.timeout_s = min(MAX_TIMEOUT_S, self.start.interval_s)

    async def __aenter__(self) -> Self:
        # A new connection of plain HTTP costs less than 5,000 that are kept open; one with TLS
        # costs more.
        connector = aiohttp.TCPConnector(limit=0, force_close=self.start.scheme == "http")
        self._session = aiohttp.ClientSession(
            connector=connector, headers=_HEADERS, cookie_jar=aiohttp.DummyCookieJar()
        )
        return self

    async def __aexit__(self, *error: object) -> None:
        if self._session is not None:
            await self._session.close()

    async def ask(self, target: ScrapeTarget) -> ScrapedPage:
        """The collector's page, or a page that says why there is none."""
        host = f"[{target.host}]" if ":" in target.host else target.host
        instance = f"{host}:{self.start.port}"
        try:
            async with asyncio.timeout(self.timeout_s):
                text, has_end = await self._get(f"{self.start.scheme}://{instance}{PATH}")
        except TimeoutError:
            return no_answer(target.node, instance, f"nothing for {self.timeout_s:g} s")
        except (aiohttp.ClientError, OSError, ValueError, _Refused) as error:
            # ValueError: for a token that cannot be in a header, and for bytes that are no text.
            reason = (
                str(error) if isinstance(error, _Refused) else f"{type(error).__name__}: {error}"
            )
            return no_answer(target.node, instance, reason)
        return read_page(text, target.node, instance, has_end=has_end)

    async def _get(self, url: str) -> tuple[str, bool]:
        """The text, and whether it must have an end mark."""
        if self._session is None:
            raise RuntimeError("CollectorClient is used outside its context")
        access = self.start.access
        async with self._session.get(
            url,
            headers=_authorization(access),
            ssl=self._tls(access) if self.start.scheme == "https" else True,
            server_hostname=access.server_name or None,
            allow_redirects=False,
        ) as answer:
            if answer.status != _OK:
                said = (await answer.content.read(200)).decode(errors="replace").strip()
                raise _Refused(f"HTTP {answer.status} {said}".rstrip())
            return (await _body(answer)).decode(), answer.content_type == _OPENMETRICS

    def _tls(self, access: ScrapeAccess) -> ssl.SSLContext:
        """A context with the CA as its file is now."""
        stamp = (0, 0)
        if access.ca_file:
            status = Path(access.ca_file).stat()
            stamp = status.st_mtime_ns, status.st_size
        if self._context is None or self._context[0] != stamp:
            context = ssl.create_default_context(cafile=access.ca_file or None)
            self._context = stamp, context
        return self._context[1]


async def _body(answer: aiohttp.ClientResponse) -> bytes:
    pieces: list[bytes] = []
    size = 0
    while piece := await answer.content.read(_PIECE):
        pieces.append(piece)
        size += len(piece)
        if size > MAX_BYTES:
            raise _Refused(f"a page of more than {MAX_BYTES} bytes")
    return b"".join(pieces)


def _authorization(access: ScrapeAccess) -> dict[str, str]:
    """The bearer token, read again each time because the kubelet renews the file."""
    if not access.token_file:
        return {}
    return {"Authorization": f"Bearer {Path(access.token_file).read_text().strip()}"}
