"""The way to the scheduler's state endpoint, and the token that opens it.

Either an URL that the user gives, or through the API server: the Lease of the scheduler says in an
annotation which service it answers behind, and the API server forwards GETs to services:
https://kubernetes.io/docs/tasks/access-application-cluster/access-cluster-services/
"""

import os
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from urllib.parse import urlsplit

from kubeshare_py.edges.credentials import Credentials, KubeConfigError
from kubeshare_py.edges.kube_client import KubeClient
from kubeshare_py.edges.kube_config import load
from kubeshare_py.edges.kube_errors import KubeError, KubeUnreachable
from kubeshare_py.edges.state_errors import StateUnreachable
from kubeshare_py.manifests.lease import STATE_SERVICE

#: Where the scheduler says that it leads, unless it was installed elsewhere.
LEASE = "kube-system/kubeshare-scheduler"
LEASE_VARIABLE, TOKEN_VARIABLE = "KUBESHARE_LEASE", "KUBESHARE_TOKEN"
#: The API server's proxy takes Authorization away; this one arrives.
FORWARDED = "X-KubeShare-Authorization"

_SERVICE = re.compile(r"https:[a-z0-9]([-a-z0-9]*[a-z0-9])?:[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_LEASE = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?/[a-z0-9]([-.a-z0-9]*[a-z0-9])?")
_BEARER = "Bearer "


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """Where to send requests. `url` goes before `/state/v1/…`; `via` names the way for people.

    `has_token`: whether `headers` carry one for the scheduler. `namespace`: where it runs.
    """

    url: str
    via: str
    has_token: bool
    namespace: str = ""
    headers: Mapping[str, str] = field(repr=False)
    tls: ssl.SSLContext = field(repr=False)
    proxy: str | None = None
    server_hostname: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """What the user says about the way: all optional. `lease` is NAMESPACE/NAME."""

    kubeconfig: str | None = None
    context: str | None = None
    lease: str | None = None
    scheduler: str | None = None
    token_file: str | None = None
    ca_file: str | None = None


async def find_route(access: Access, environ: Mapping[str, str] = os.environ) -> Route:
    """Choose the way and the token: the file, $KUBESHARE_TOKEN, the kubeconfig's.

    The way through the API server is on the Lease that is given, or $KUBESHARE_LEASE.
    Raises StateUnreachable with a sentence that says what to do.
    """
    token = _own_token(access, environ)
    if access.scheduler is not None:
        return await _direct(access, access.scheduler, token, environ)
    try:
        credentials = load(access.kubeconfig, access.context, environ=environ)
    except KubeConfigError as error:
        raise StateUnreachable(f"cannot use the {error}") from error
    lease = access.lease or environ.get(LEASE_VARIABLE, "").strip() or LEASE
    if not _LEASE.fullmatch(lease):
        raise StateUnreachable(f"--lease {lease!r} is not NAMESPACE/NAME")
    service = await _service(credentials, lease)
    namespace, _, _ = lease.partition("/")
    authorization = await credentials.headers()
    token = token or _bearer(authorization)
    return Route(
        url=f"{credentials.server}/api/v1/namespaces/{namespace}/services/{service}/proxy",
        via=f"service {namespace}/{service} behind {credentials.server}",
        has_token=token is not None,
        namespace=namespace,
        headers={**authorization, **({} if token is None else {FORWARDED: _BEARER + token})},
        tls=credentials.ssl_context,
        proxy=credentials.proxy,
        server_hostname=credentials.server_hostname,
    )


async def _direct(access: Access, url: str, token: str | None, environ: Mapping[str, str]) -> Route:
    parts = urlsplit(url)
    if parts.scheme != "https" or not parts.netloc:
        raise StateUnreachable(f"--scheduler {url!r} is not an URL that begins with https://")
    try:
        tls = ssl.create_default_context(cafile=access.ca_file)
    except (OSError, ssl.SSLError) as error:
        raise StateUnreachable(f"cannot use --ca-file {access.ca_file}: {error}") from error
    if token is None:
        try:
            credentials = load(access.kubeconfig, access.context, environ=environ)
            token = _bearer(await credentials.headers())
        except KubeConfigError as error:
            if access.kubeconfig is not None or access.context is not None:
                raise StateUnreachable(f"cannot use the {error}") from error
    return Route(
        url=url.rstrip("/"),
        via=url,
        has_token=token is not None,
        headers={} if token is None else {"Authorization": _BEARER + token},
        tls=tls,
    )


async def _service(credentials: Credentials, place: str) -> str:
    """Read the annotation of the Lease; `https:name:port`."""
    namespace, _, name = place.partition("/")
    path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{name}"
    lease = f"Lease {place}"
    try:
        async with KubeClient(credentials) as client:
            found = await client.get(path)
    except KubeUnreachable as error:
        where = f"the API server {credentials.server}"
        raise StateUnreachable(f"cannot reach {where}: {error}") from error
    except KubeError as error:
        if error.status == HTTPStatus.NOT_FOUND:
            raise StateUnreachable(
                f"there is no {lease} in this cluster: is kubeshare-scheduler installed and "
                f"running? (kubectl -n {namespace} get pods; if elsewhere: --lease NAMESPACE/NAME)"
            ) from error
        raise StateUnreachable(f"the API server does not show {lease}: {error}") from error
    service = ((found.get("metadata") or {}).get("annotations") or {}).get(STATE_SERVICE)
    if service is None:
        raise StateUnreachable(
            f"{lease} has no annotation {STATE_SERVICE}: the scheduler serves no state, or is "
            "still starting; --scheduler URL goes to it directly"
        )
    if not _SERVICE.fullmatch(str(service)):
        raise StateUnreachable(
            f"{lease} has annotation {STATE_SERVICE}={service!r}, which is not https:SERVICE:PORT"
        )
    return str(service)


def _own_token(access: Access, environ: Mapping[str, str]) -> str | None:
    if access.token_file is None:
        return environ.get(TOKEN_VARIABLE, "").strip() or None
    try:
        token = Path(access.token_file).read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        raise StateUnreachable(f"cannot read --token-file {access.token_file}: {error}") from error
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise StateUnreachable(f"--token-file {access.token_file} does not hold one token")
    return token


def _bearer(headers: Mapping[str, str]) -> str | None:
    scheme, _, token = headers.get("Authorization", "").partition(" ")
    return token.strip() or None if scheme.lower() == "bearer" else None
