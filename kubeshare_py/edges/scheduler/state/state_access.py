"""Which reader asks for the scheduler's state, and what it may see."""

import hmac
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Protocol

from aiohttp import web

from kubeshare_py.edges.kube.delegated_auth import (
    KEPT_S,
    NAMESPACE_KEPT_S,
    NOT_VALID,
    Denial,
    NonResourceAttributes,
    ResourceAttributes,
    UserInfo,
)
from kubeshare_py.manifests.state_group import GROUP, PODS, VERSION
from kubeshare_py.scheduling.explain.visibility import Sees, sees_all

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
