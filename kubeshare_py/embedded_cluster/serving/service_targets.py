"""The server behind an APIService of the embedded API server, and its trusted authority."""

import base64
import ssl
from dataclasses import dataclass
from pathlib import Path

from kubeshare_py.embedded_cluster.kinds.cluster_services import SERVICES
from kubeshare_py.embedded_cluster.protocol.status import Json
from kubeshare_py.embedded_cluster.protocol.store import ApiStore


@dataclass(frozen=True, slots=True)
class ServiceTarget:
    """A URL, the name in its certificate, and the bundle that verifies it.

    `bundle` is base64 of PEM, "" for the system's authorities.
    """

    url: str
    host: str
    bundle: str
    insecure: bool


class Unavailable(Exception):
    """The group is not available; `reason` is that of the condition, the text its message."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


def target_of(store: ApiStore, service: Json) -> ServiceTarget:
    """The server behind an APIService. Raises Unavailable.

    Only external names are supported: there is no network of pods here.
    """
    spec = service["spec"]
    namespace, name = spec["service"]["namespace"], spec["service"]["name"]
    entry = store.get(SERVICES.store_bucket, namespace, name)
    if entry is None:
        raise Unavailable("ServiceNotFound", f'service/{name} in "{namespace}" is not present')
    host = entry.object["spec"].get("externalName")
    if not host:
        message = f'endpoints for service/{name} in "{namespace}" have no addresses'
        raise Unavailable("MissingEndpoints", message)
    return ServiceTarget(
        url=f"https://{host}:{spec['service']['port']}",
        host=f"{name}.{namespace}.svc",
        bundle=spec.get("caBundle", ""),
        insecure=bool(spec.get("insecureSkipTLSVerify")),
    )


class Contexts:
    """TLS contexts by target, each with the proxy's own certificate; the last one is kept."""

    def __init__(self, pair: Path) -> None:
        """`pair` is a file of certificate and key."""
        self._pair = pair
        self._last: tuple[ServiceTarget, ssl.SSLContext] | None = None

    def of(self, target: ServiceTarget) -> ssl.SSLContext:
        """The context for a target. Raises Unavailable for a bad bundle."""
        if self._last is None or self._last[0] != target:
            self._last = target, self._made(target)
        return self._last[1]

    def _made(self, target: ServiceTarget) -> ssl.SSLContext:
        try:
            bundle = base64.b64decode(target.bundle).decode()
            context = ssl.create_default_context(cadata=bundle or None)
        except (ValueError, ssl.SSLError) as error:
            message = f"unable to load root certificates: {error}"
            raise Unavailable("FailedDiscoveryCheck", message) from error
        if target.insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        context.load_cert_chain(self._pair)
        return context
