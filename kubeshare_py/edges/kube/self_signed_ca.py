"""A self-made server certificate, and the API server's trust in it.

A process creates an authority and a certificate that live for a day, adds the authority to
`caBundle` of the object by which the API server calls it (a MutatingWebhookConfiguration, an
APIService), and only then uses the certificate; before the end it does so again. No key leaves the
process, so replicas need no common Secret. Rights: get and patch on that one object.
"""

import asyncio
import base64
import binascii
import ssl
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from pathlib import Path
from typing import Any

from kubeshare_py.edges.kube.certificate_bundle import with_authority
from kubeshare_py.edges.kube.certificates import Certificates, make_certificates
from kubeshare_py.edges.kube.client import JSON_PATCH, KubeClient, Object
from kubeshare_py.edges.kube.errors import KubeError, KubeFailure
from kubeshare_py.edges.process import decision_log
from kubeshare_py.manifests.api_paths import path_segment

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
