"""Credentials of a program for one API server, renewed when they are due; and where they are found.

`edges.kube.kubeconfig` reads kubeconfig files and the service account of a pod for all programs.
The package `kubernetes` gets the tokens of a kubeconfig's `auth-provider` (decisions 0031, 0034).
It is imported when one is needed: it takes a second of CPU, and `make demo` does without it.
"""

import asyncio
import contextlib
import importlib
import logging
import os
import ssl
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from multidict import CIMultiDict

from kubeshare_py.edges.kube.errors import KubeConfigError
from kubeshare_py.edges.kube.kubeconfig import (
    SERVICE_ACCOUNT,
    Configured,
    KubectlOptions,
    KubeReading,
    ProvidedToken,
    load_certificates,
    service_account_reading,
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

    async def headers(self) -> Mapping[str, str]:
        """The Authorization header (none with client certificates), renewed when due.

        And those of a user to act as, of which some may be repeated.
        """
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


def _headers(reading: KubeReading) -> Mapping[str, str]:
    headers = CIMultiDict(reading.impersonation)
    if reading.authorization is not None:
        headers["Authorization"] = reading.authorization
    return headers


# Where credentials come from: a kubeconfig file or the service account of the pod we run in.


def load(
    kubeconfig: str | None,
    context: str | None = None,
    *,
    environ: Mapping[str, str] = os.environ,
    service_account: Path = SERVICE_ACCOUNT,
) -> Credentials:
    """Find credentials: the given file, $KUBECONFIG, the service account, ~/.kube/config.

    Several files (separated by colons) are merged as kubectl does. Raises KubeConfigError.
    """
    if kubeconfig is None:
        kubeconfig = environ.get("KUBECONFIG") or None
    if kubeconfig is None and environ.get("KUBERNETES_SERVICE_HOST"):
        source = f"service account {service_account}"
        return Credentials(source, lambda: service_account_reading(service_account, environ))
    if kubeconfig is None:
        kubeconfig = str(Path(environ.get("HOME") or Path.home()) / ".kube" / "config")
    paths = kubeconfig

    def read() -> KubeReading:
        """Read the file(s) anew: exec plugins run, token and certificate files are opened."""
        return Configured(
            KubectlOptions(context=context),
            environ=environ,
            files=[Path(path).expanduser() for path in paths.split(os.pathsep) if path],
            provided=lambda: _provided(paths, context),
        ).reading()

    return Credentials(f"kubeconfig {paths}", read)


def _package() -> Any:
    """Import `kubernetes`, whose modules have no annotations. Raises KubeConfigError."""
    try:
        kubernetes = importlib.import_module("kubernetes")
        importlib.import_module("kubernetes.config.kube_config")
    except ModuleNotFoundError as error:
        raise KubeConfigError(
            f"the package {error.name} is not installed (make demo does without it): "
            "run make setup, or pip install kubeshare-py"
        ) from error
    return kubernetes


def _provided(paths: str, context: str | None) -> ProvidedToken:
    """The token of the chosen user's auth-provider: renewed, and written back to its file.

    Raises KubeConfigError without a place, which the caller knows.
    """
    kubernetes = _package()
    # What the package lets through of the libraries by which it asks an identity provider.
    failures = (
        kubernetes.config.ConfigException,
        kubernetes.client.exceptions.OpenApiException,
        importlib.import_module("urllib3.exceptions").HTTPError,
        importlib.import_module("oauthlib.oauth2").OAuth2Error,
        OSError,
        AttributeError,
        LookupError,
        TypeError,
        ValueError,
    )
    try:
        merger = kubernetes.config.kube_config.KubeConfigMerger(paths)
        with tempfile.TemporaryDirectory() as folder:
            loader = kubernetes.config.kube_config.KubeConfigLoader(
                merger.config,
                active_context=context,
                config_base_path=None,
                config_persister=_persister(merger),
                temp_file_path=folder,
            )
            loader.load_and_set(kubernetes.client.Configuration())
    except failures as error:
        said = " ".join(str(error).split())
        raise KubeConfigError(f"{type(error).__name__}: {said}" if said else repr(error)) from error
    token = str(getattr(loader, "token", "")).removeprefix("Bearer ")
    return ProvidedToken(token, getattr(loader, "expiry", None))


def _persister(merger: Any) -> Callable[[], None]:
    def save() -> None:
        # An OIDC refresh token may be valid only once; a read-only file serves until a restart.
        with contextlib.suppress(OSError):
            merger.save_changes()

    return save
