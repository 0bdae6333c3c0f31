"""Access to the scheduler's endpoints, delegated to the API server.

A TokenReview gives a token's user, and a SubjectAccessReview says whether that user may get a path
(`nonResourceURLs` in RBAC) or read an object, as Kubernetes' own components do:
https://kubernetes.io/docs/reference/access-authn-authz/webhook/ Needs the ClusterRole
system:auth-delegator. Tokens are kept as hashes only, and never logged.
"""

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Generic, TypeVar

import msgspec

from kubeshare_py.edges.kube.client import KubeClient
from kubeshare_py.edges.kube.errors import KubeError, KubeFailure
from kubeshare_py.manifests.state_group import Reviewed, UserInfo, reviewed

TOKEN_REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"
ACCESS_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
#: Seconds that an answer is valid, a refusal included.
KEPT_S = 10.0
#: Seconds that an answer about a whole namespace is valid: such reviews come for every namespace at
#: a time.
NAMESPACE_KEPT_S = 60.0
#: The most cached answers, reviews in flight and waiting ones: strangers must not crowd out the
#: binds.
MAX_KEPT, MAX_ASKED, MAX_WAITING = 256, 2, 64
#: The most cached answers about users: about 200 bytes each.
MAX_USER_ANSWERS = 8192
TIMEOUT_S = 5.0
#: Members of this group are always allowed, as in Kubernetes' own components.
MASTERS = "system:masters"

V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class Denial:
    """The HTTP status to answer with, and a sentence."""

    status: int
    message: str


NOT_VALID = Denial(HTTPStatus.UNAUTHORIZED, "a valid bearer token is needed")
_TOO_MANY = Denial(HTTPStatus.SERVICE_UNAVAILABLE, "too many tokens are being checked")


class NonResourceAttributes(msgspec.Struct, frozen=True):
    """A request without an object: `verb` is an HTTP method in lower case."""

    verb: str
    path: str

    def attributes(self) -> dict[str, object]:
        """The part of a SubjectAccessReview's spec with the action."""
        return {"nonResourceAttributes": {"path": self.path, "verb": self.verb}}

    def __str__(self) -> str:
        return f"{self.verb} {self.path} (a ClusterRole with this nonResourceURL is needed)"


class ResourceAttributes(msgspec.Struct, frozen=True, omit_defaults=True):
    """To get or list objects; namespace "" is the whole cluster, name "" every one."""

    verb: str
    group: str
    version: str
    resource: str
    namespace: str = ""
    name: str = ""

    def attributes(self) -> dict[str, object]:
        """The part of a SubjectAccessReview's spec with the action."""
        return {"resourceAttributes": msgspec.to_builtins(self)}

    def __str__(self) -> str:
        """In kube-apiserver's words: k8s.io/apiserver/pkg/endpoints/handlers/responsewriters."""
        where = f'in the namespace "{self.namespace}"' if self.namespace else "at the cluster scope"
        return f'{self.verb} resource "{self.resource}" in API group "{self.group}" {where}'


class _ReviewCache(Generic[V]):
    """Answers by a digest of their question; beyond `most` the oldest is dropped."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: OrderedDict[bytes, tuple[float, V]] = OrderedDict()

    def get(self, key: bytes, now: float) -> tuple[V] | None:
        kept = self._kept.get(key)
        return (kept[1],) if kept is not None and now < kept[0] else None

    def keep(self, key: bytes, until: float, answer: V) -> None:
        self._kept[key] = until, answer
        self._kept.move_to_end(key)
        if len(self._kept) > self._most:
            self._kept.popitem(last=False)


class DelegatedAuth:
    """Sends reviews with the scheduler's own client, and caches the answers."""

    def __init__(self, client: KubeClient, clock: Callable[[], float]) -> None:
        """`clock` gives monotonic seconds."""
        self._client = client
        self._clock = clock
        self._users: _ReviewCache[UserInfo | None] = _ReviewCache(MAX_KEPT)
        self._allowed: _ReviewCache[bool] = _ReviewCache(MAX_USER_ANSWERS)
        self._slots = asyncio.Semaphore(MAX_ASKED)
        self._waiting = 0

    async def denial(self, token: str, verb: str, path: str) -> Denial | None:
        """Why the owner of the token may not do this to a path; None if it is allowed.

        401 for an unknown token, 403 for a user without the right, 503 if the API server cannot be
        asked.
        """
        user = await self.user(token)
        return (
            user
            if isinstance(user, Denial)
            else await self.refuses(user, NonResourceAttributes(verb, path))
        )

    async def user(self, token: str) -> UserInfo | Denial:
        """The token's user; 401 if unknown, 503 if the API server cannot be asked."""
        if not token.isascii():
            return NOT_VALID
        key = hashlib.sha256(token.encode()).digest()
        found = await self._answer(self._users, key, KEPT_S, lambda: self._owner(token))
        return found if isinstance(found, Denial) else found or NOT_VALID

    async def refuses(
        self,
        user: UserInfo,
        asked: NonResourceAttributes | ResourceAttributes,
        kept_s: float = KEPT_S,
    ) -> Denial | None:
        """Why the user may not do this: 403, or 503 if the API server cannot be asked.

        An earlier answer is valid for `kept_s` seconds.
        """
        if MASTERS in user.groups:
            return None
        key = hashlib.sha256(msgspec.json.encode((user, asked), order="sorted")).digest()
        may = await self._answer(self._allowed, key, kept_s, lambda: self._may(user, asked))
        if isinstance(may, Denial):
            return may
        return None if may else forbidden(user, asked)

    async def _answer(
        self, kept: _ReviewCache[V], key: bytes, kept_s: float, ask: Callable[[], Awaitable[V]]
    ) -> V | Denial:
        """The cached answer, or a new one, which is cached."""
        known = kept.get(key, self._clock())
        if known is not None:
            return known[0]
        if self._waiting >= MAX_WAITING:
            return _TOO_MANY
        self._waiting += 1
        try:
            async with self._slots:
                found = await ask()
        except KubeFailure as failure:
            return Denial(HTTPStatus.SERVICE_UNAVAILABLE, _sentence(failure))
        finally:
            self._waiting -= 1
        kept.keep(key, self._clock() + kept_s, found)
        return found

    async def _owner(self, token: str) -> UserInfo | None:
        reviewed = await self._review(
            TOKEN_REVIEWS, "authentication.k8s.io/v1", "TokenReview", {"token": token}
        )
        known = reviewed.authenticated and reviewed.user.username
        return reviewed.user if known else None

    async def _may(self, user: UserInfo, asked: NonResourceAttributes | ResourceAttributes) -> bool:
        spec = {
            "user": user.username,
            "uid": user.uid,
            "groups": user.groups,
            "extra": user.extra,
            **asked.attributes(),
        }
        access = await self._review(
            ACCESS_REVIEWS, "authorization.k8s.io/v1", "SubjectAccessReview", spec
        )
        return access.is_allowed

    async def _review(self, path: str, version: str, kind: str, spec: dict[str, Any]) -> Reviewed:
        body = {"apiVersion": version, "kind": kind, "spec": spec}
        answer = await self._client.request("POST", path, body=body, timeout_s=TIMEOUT_S)
        try:
            return reviewed(answer.body)
        except msgspec.MsgspecError as error:
            raise KubeError(answer.status, "", f"not a {kind}: {error}") from error


def forbidden(user: UserInfo, asked: NonResourceAttributes | ResourceAttributes) -> Denial:
    """A 403 in the words of the API server."""
    of_objects = isinstance(asked, ResourceAttributes)
    who = "User" if of_objects else "user"
    may_not = "cannot" if of_objects else "may not"
    return Denial(HTTPStatus.FORBIDDEN, f'{who} "{user.username}" {may_not} {asked}')


def _sentence(failure: KubeFailure) -> str:
    if isinstance(failure, KubeError) and failure.status == HTTPStatus.FORBIDDEN:
        return (
            "the scheduler may not check tokens: its ServiceAccount needs the ClusterRole "
            "system:auth-delegator"
        )
    return "the API server cannot be asked whose token this is; try again"
