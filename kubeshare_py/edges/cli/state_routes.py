"""The ways to the scheduler's state: the servers and the credentials for them.

Through the API server the scheduler is an aggregated API, open to every kubeconfig:
https://kubernetes.io/docs/concepts/extend-kubernetes/api-extension/apiserver-aggregation/
`--scheduler URL` connects to its port directly, with a bearer token.
"""

import os
import ssl
from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import urlsplit

from kubeshare_py.edges.cli.access import ApiAccess
from kubeshare_py.edges.cli.https_client import JSON, TIMEOUT_S, HttpAnswer, HttpsClient, Origin
from kubeshare_py.edges.cli.kubeconfig_reading import DEFAULT_NAMESPACE, Configured
from kubeshare_py.edges.cli.proxies import proxy_of_environment
from kubeshare_py.edges.cli.state_errors import StateUnreachable
from kubeshare_py.edges.kube.credential_reading import KubeConfigError, tls_context

TOKEN_VARIABLE = "KUBESHARE_TOKEN"
_UNAUTHORIZED = 401
_BEARER = "Bearer "


class ApiServerRoute:
    """Requests to the API server of a kubeconfig, which is read at the first one."""

    def __init__(self, access: ApiAccess, environ: Mapping[str, str] = os.environ) -> None:
        self._access = access
        self._environ = environ
        self._configured: Configured | None = None
        self._client: HttpsClient | None = None

    def namespace(self) -> str:
        """The namespace that the user means; "default" if no kubeconfig can be read."""
        try:
            return self._config().namespace()
        except StateUnreachable:
            if self._access.scheduler is None:
                raise
            return self._access.namespace or DEFAULT_NAMESPACE

    def server(self) -> str:
        """The URL of the API server."""
        return self._opened().origin.url

    def get(self, path: str, *, accept: str = JSON) -> HttpAnswer:
        """Send one GET; credentials that the server refuses are read again once.

        They may have expired: tokens of exec plugins, rotated files. Raises StateUnreachable.
        """
        return self._trusted(lambda client: client.get(path, accept=accept))

    def post(self, path: str, body: bytes) -> HttpAnswer:
        """Send one POST of JSON that may be sent again; as `get` otherwise."""
        return self._trusted(lambda client: client.post(path, body))

    def _trusted(self, send: Callable[[HttpsClient], HttpAnswer]) -> HttpAnswer:
        used = self._client is not None
        answer = send(self._opened())
        if answer.status == _UNAUTHORIZED and used:
            self.close()
            self._configured = None
            answer = send(self._opened())
        return answer

    def close(self) -> None:
        """End the connection."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def _config(self) -> Configured:
        if self._configured is None:
            try:
                self._configured = Configured(self._access, environ=self._environ)
            except KubeConfigError as error:
                raise StateUnreachable(f"cannot use the {error}") from error
        return self._configured

    def _opened(self) -> HttpsClient:
        if self._client is None:
            config = self._config()
            try:
                reading = config.reading()
                tls = tls_context(reading, config.source)
            except KubeConfigError as error:
                raise StateUnreachable(f"cannot use the {error}") from error
            own = [("Authorization", reading.authorization)] if reading.authorization else []
            self._client = HttpsClient(
                Origin(
                    url=reading.server,
                    name="the API server",
                    remedy="name its authority in the kubeconfig or with --certificate-authority",
                    headers=(*own, *reading.impersonation),
                    tls=tls if reading.server.startswith("https:") else None,
                    server_hostname=reading.server_hostname,
                    proxy=reading.proxy or proxy_of_environment(reading.server, self._environ),
                    timeout_s=timeout_of(self._access),
                )
            )
        return self._client


def direct_route(access: ApiAccess, url: str, token: str | None) -> HttpsClient:
    """A client of the scheduler's own port. Raises StateUnreachable for unusable options."""
    parts = urlsplit(url)
    if parts.scheme != "https" or not parts.hostname:
        raise StateUnreachable(f"--scheduler {url!r} is not an URL that begins with https://")
    try:
        tls = ssl.create_default_context(cafile=access.ca_file)
    except (OSError, ssl.SSLError) as error:
        raise StateUnreachable(f"cannot use --ca-file {access.ca_file}: {error}") from error
    if access.insecure_skip_tls_verify:
        tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    return HttpsClient(
        Origin(
            url=url.rstrip("/"),
            name="the scheduler",
            remedy="name its authority with --ca-file",
            headers=() if token is None else (("Authorization", _BEARER + token),),
            tls=tls,
            timeout_s=timeout_of(access),
        )
    )


def token_for_scheduler(access: ApiAccess, environ: Mapping[str, str] = os.environ) -> str | None:
    """The token for `--scheduler`: --token-file or $KUBESHARE_TOKEN, None for none.

    Never the kubeconfig's, which opens the whole cluster, while the URL may be any server's. Raises
    StateUnreachable.
    """
    if access.token_file is not None:
        return _token_in(access.token_file)
    return environ.get(TOKEN_VARIABLE, "").strip() or None


def timeout_of(access: ApiAccess) -> float | None:
    """The limit of a request in seconds; None for no limit (--request-timeout 0)."""
    given = access.request_timeout
    return TIMEOUT_S if given is None else given or None


def _token_in(file: str) -> str:
    try:
        token = Path(file).read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        raise StateUnreachable(f"cannot read --token-file {file}: {error}") from error
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise StateUnreachable(f"--token-file {file} does not hold one token")
    return token
