"""Which reader asks for the scheduler's state, and what it may see."""

import asyncio
import hmac
import ssl
from collections.abc import Awaitable, Callable, Collection, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Protocol
from urllib.parse import unquote

from aiohttp import web
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.x509.oid import NameOID

from kubeshare_py.edges.kube.client import KubeClient
from kubeshare_py.edges.kube.delegated_auth import (
    KEPT_S,
    NAMESPACE_KEPT_S,
    NOT_VALID,
    Denial,
    NonResourceAttributes,
    ResourceAttributes,
)
from kubeshare_py.edges.kube.errors import KubeFailure
from kubeshare_py.edges.process import decision_log
from kubeshare_py.manifests.state_group import (
    GROUP,
    PATH,
    PODS,
    VERSION,
    BadRequestHeader,
    RequestHeader,
    UserInfo,
    read_request_header,
)
from kubeshare_py.scheduling.explain.question import Sees, sees_all, sees_none

NO_TOKENS = "no tokens are configured (server.tokenFile)"


class Reviews(Protocol):
    """The API server's reviews of users."""

    async def user(self, token: str) -> UserInfo | Denial:
        """The token's user; 401 if unknown, 503 if the API server cannot be asked."""

    async def refuses(
        self,
        user: UserInfo,
        asked: NonResourceAttributes | ResourceAttributes,
        kept_s: float = KEPT_S,
    ) -> Denial | None:
        """Why the user may not do this: 403, or 503 if the API server cannot be asked."""


@dataclass(frozen=True, slots=True)
class TokenHolder:
    """The holder of a token of the file, who may read everything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StateAccess:
    """Identifies readers by tokens of the file, kube-apiserver's headers, or their own tokens.

    `forwarded` gives the user of a request that kube-apiserver forwards, None for all others, and
    raises KeyError if it names none. `namespaces` are those of all pods.
    """

    tokens: Collection[str] = ()
    reviews: Reviews | None = None
    forwarded: Callable[[web.Request], UserInfo | None] = field(default=lambda request: None)
    namespaces: Callable[[], Collection[str]] = field(default=lambda: ())

    async def reader(self, request: web.Request) -> UserInfo | TokenHolder | Denial:
        """The reader of this request."""
        try:
            user = self.forwarded(request)
        except KeyError as error:
            message = f"the request names no user in {error.args[0]}"
            return Denial(HTTPStatus.UNAUTHORIZED, message)
        if user is not None:
            return user
        given = bearer(request)
        if is_one_of(given, self.tokens):
            return TokenHolder()
        if self.reviews is None:
            return NOT_VALID if self.tokens else Denial(NOT_VALID.status, NO_TOKENS)
        return await self.reviews.user(given) if given else NOT_VALID

    async def refuses(
        self, reader: UserInfo | TokenHolder, asked: ResourceAttributes
    ) -> Denial | None:
        """Why the reader may not read this; None if it may."""
        if isinstance(reader, TokenHolder) or self.reviews is None:
            return None
        return await self.reviews.refuses(reader, asked)

    async def sees(self, reader: UserInfo | TokenHolder, about: str = "") -> Sees | Denial:
        """The namespaces whose pods the reader may see named.

        An administrator costs one review, other readers one for each namespace with pods; for an
        answer `about` one namespace, only that one.
        """
        if isinstance(reader, TokenHolder) or self.reviews is None:
            return sees_all
        denied = await self.reviews.refuses(reader, pods_of(""))
        if denied is None:
            return sees_all
        if denied.status != HTTPStatus.FORBIDDEN:
            return denied
        if about:
            return {about}.__contains__
        seen = set()
        for namespace in sorted(self.namespaces()):
            asked = pods_of(namespace)
            denied = await self.reviews.refuses(reader, asked, NAMESPACE_KEPT_S)
            if denied is None:
                seen.add(namespace)
            elif denied.status != HTTPStatus.FORBIDDEN:
                return denied
        return seen.__contains__

    async def sees_in(self, reader: UserInfo | TokenHolder, namespace: str) -> Sees | Denial:
        """The same for an answer about a namespace in which the reader may list no pods."""
        sees = await self.sees(reader, namespace)
        if isinstance(sees, Denial) or sees is sees_all:
            return sees
        denied = await self.refuses(reader, pods_of(namespace))
        if denied is not None and denied.status != HTTPStatus.FORBIDDEN:
            return denied
        return sees if denied is None else sees_none


def creating_pods(namespace: str) -> ResourceAttributes:
    """Creating pods in a namespace: Kubernetes' own, not their state."""
    return ResourceAttributes("create", "", "v1", PODS, namespace)


def pods_of(namespace: str) -> ResourceAttributes:
    """Listing the pods' state in a namespace, "" for all."""
    return reading("list", PODS, namespace)


def reading(verb: str, resource: str, namespace: str = "", name: str = "") -> ResourceAttributes:
    """Reading an object of the state's API group."""
    return ResourceAttributes(verb, GROUP, VERSION, resource, namespace, name)


def bearer(request: web.Request) -> str:
    """The bearer token of a request, "" for none."""
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def is_one_of(given: str, tokens: Collection[str]) -> bool:
    """Whether the token is one of these, in a time that does not depend on how much is right."""
    return any(_same(given, token) for token in tokens)


def _same(given: str, token: str) -> bool:
    return hmac.compare_digest(given.encode(errors="surrogateescape"), token.encode())


# Requests that kube-apiserver forwards on behalf of its users.
#
# It connects with a client certificate and names the user in headers. A ConfigMap, read again every
# minute, has the accepted certificates and headers:
# https://kubernetes.io/docs/tasks/extend-kubernetes/configure-aggregation-layer/


#: Seconds between readings of the ConfigMap, and after a failure.
CHECK_S, RETRY_S = 60.0, 5.0


class FrontProxy:
    """Identifies kube-apiserver by its certificate, and reads the user from its requests."""

    def __init__(self, client: KubeClient, context: ssl.SSLContext) -> None:
        """`context` is the server's; it requests client certificates once an authority is known.

        A client without a certificate connects as before. A certificate of another authority is
        refused by TLS.
        """
        self._client = client
        self._context = context
        self._known = RequestHeader()
        self._authorities: list[x509.Certificate] = []
        self._last_logged = ""

    async def keep(self, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        """Follow the ConfigMap until cancelled."""
        while True:
            await sleep(CHECK_S if await self.read() else RETRY_S)

    async def read(self) -> bool:
        """Read the ConfigMap; whether it was answered. If not, the known one stays."""
        try:
            found = read_request_header(await self._client.get(PATH))
            authorities = x509.load_pem_x509_certificates(found.authorities.encode())
        except KubeFailure as failure:
            self._client.contact.failed("front proxy", failure, PATH)
            return False
        except (BadRequestHeader, ValueError) as error:
            # Also for an empty authority: the aggregation layer is off.
            self._log(f"requests that kube-apiserver forwards are refused: {error}")
            self._authorities = []
            return True
        if found != self._known or not self._authorities:
            self._trust(found.authorities)
            self._known, self._authorities = found, authorities
            decision_log.inform("front proxy", names=sorted(found.names))
        self._last_logged = ""
        return True

    def user(self, request: web.Request) -> UserInfo | None:
        """The forwarded user; None for a connection that is not kube-apiserver's.

        Raises KeyError if the headers name no user.
        """
        tls = request.get_extra_info("ssl_object")
        shown = tls.getpeercert(binary_form=True) if tls is not None else None
        if not shown or not self._is_proxy(shown):
            return None
        return _user_of(request, self._known)

    def _trust(self, authorities: str) -> None:
        context = self._context
        context.load_verify_locations(cadata=authorities)
        # As in Go: each certificate of the file is an anchor, old ones included.
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        context.verify_mode = ssl.CERT_OPTIONAL

    def _is_proxy(self, shown: bytes) -> bool:
        """Whether this verified certificate is accepted; a context keeps all former authorities."""
        certificate = x509.load_der_x509_certificate(shown)
        now = datetime.now(UTC)
        if not certificate.not_valid_before_utc <= now <= certificate.not_valid_after_utc:
            return False
        if not any(_issued(certificate, one) for one in self._authorities):
            return False
        names = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        allowed = self._known.names
        return not allowed or any(str(name.value) in allowed for name in names)

    def _log(self, message: str) -> None:
        """Log a message, once while it is the same."""
        if message != self._last_logged:
            self._last_logged = message
            decision_log.warn("front proxy", message=message)


def _issued(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _user_of(request: web.Request, known: RequestHeader) -> UserInfo:
    headers = request.headers
    name = _first(request, known.user)
    if not name:
        raise KeyError(known.user[0])
    groups = [value for header in known.group for value in headers.getall(header, [])]
    extra: dict[str, list[str]] = {}
    for header, value in headers.items():
        for prefix in known.extra:
            if header.lower().startswith(prefix.lower()):
                # Go writes these header names in lower case, with characters that HTTP forbids as
                # %XX.
                key = unquote(header[len(prefix) :].lower())
                extra.setdefault(key, []).append(value)
    return UserInfo(
        username=name,
        uid=_first(request, known.uid),
        groups=tuple(groups),
        extra={key: tuple(values) for key, values in extra.items()},
    )


def _first(request: web.Request, names: Iterable[str]) -> str:
    return next((request.headers[name] for name in names if request.headers.get(name)), "")
