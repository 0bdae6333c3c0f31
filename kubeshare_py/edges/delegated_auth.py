"""Who may read the scheduler's endpoints, asked of the API server.

A TokenReview says whose token it is, a SubjectAccessReview whether that user may get the path
(`nonResourceURLs` in RBAC), as Kubernetes' own components ask:
https://kubernetes.io/docs/reference/access-authn-authz/webhook/
Needs the ClusterRole system:auth-delegator. Tokens are kept as hashes only, and never logged.
"""

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import msgspec

from kubeshare_py.edges.kube_client import KubeClient
from kubeshare_py.edges.kube_errors import KubeError, KubeFailure

TOKEN_REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"
ACCESS_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
#: An answer is good for so long (s), a refusal as well.
KEPT_S = 10.0
#: Answers remembered, and questions under way and waiting: strangers must not crowd out the binds.
MOST_KEPT, MOST_ASKED, MOST_WAITING = 256, 2, 64
TIMEOUT_S = 5.0


@dataclass(frozen=True, slots=True)
class Denial:
    """The HTTP status to answer with, and a sentence."""

    status: int
    message: str


NOT_VALID = Denial(HTTPStatus.UNAUTHORIZED, "a valid bearer token is needed")


class _User(msgspec.Struct, frozen=True):
    """UserInfo; `extra` and `groups` go on to the second question as they are."""

    username: str = ""
    uid: str = ""
    groups: list[str] = []
    extra: dict[str, list[str]] = {}


class _Reviewed(msgspec.Struct):
    """The status of either review."""

    authenticated: bool = False
    user: _User = _User()
    error: str = ""
    allowed: bool = False
    denied: bool = False


class _Review(msgspec.Struct):
    status: _Reviewed


class DelegatedAuth:
    """Asks through the scheduler's own client, and remembers for a while."""

    def __init__(self, client: KubeClient, clock: Callable[[], float]) -> None:
        """`clock` gives monotonic seconds."""
        self._client = client
        self._clock = clock
        self._kept: OrderedDict[tuple[bytes, str, str], tuple[float, Denial | None]] = OrderedDict()
        self._turn = asyncio.Semaphore(MOST_ASKED)
        self._waiting = 0

    async def denial(self, token: str, verb: str, path: str) -> Denial | None:
        """Why the owner of the token may not do this; None if he may.

        401 for a token that nobody knows, 403 for a user without the right, 503 when the API
        server cannot be asked.
        """
        if not token.isascii():
            return NOT_VALID
        key = (hashlib.sha256(token.encode()).digest(), verb, path)
        kept = self._kept.get(key)
        if kept is not None and self._clock() < kept[0]:
            return kept[1]
        if self._waiting >= MOST_WAITING:
            return Denial(HTTPStatus.SERVICE_UNAVAILABLE, "too many tokens are being checked")
        self._waiting += 1
        try:
            async with self._turn:
                found = await self._ask(token, verb, path)
        except KubeFailure as failure:
            return Denial(HTTPStatus.SERVICE_UNAVAILABLE, _sentence(failure))
        finally:
            self._waiting -= 1
        self._kept[key] = self._clock() + KEPT_S, found
        self._kept.move_to_end(key)
        if len(self._kept) > MOST_KEPT:
            self._kept.popitem(last=False)
        return found

    async def _ask(self, token: str, verb: str, path: str) -> Denial | None:
        reviewed = await self._review(
            TOKEN_REVIEWS, "authentication.k8s.io/v1", "TokenReview", {"token": token}
        )
        user = reviewed.user
        if not reviewed.authenticated or not user.username:
            return NOT_VALID
        asked = {
            "user": user.username,
            "uid": user.uid,
            "groups": user.groups,
            "extra": user.extra,
            "nonResourceAttributes": {"path": path, "verb": verb},
        }
        access = await self._review(
            ACCESS_REVIEWS, "authorization.k8s.io/v1", "SubjectAccessReview", asked
        )
        if access.allowed and not access.denied:
            return None
        return Denial(
            HTTPStatus.FORBIDDEN,
            f'user "{user.username}" may not {verb} {path} '
            "(a ClusterRole with this nonResourceURL is needed)",
        )

    async def _review(self, path: str, version: str, kind: str, spec: dict[str, Any]) -> _Reviewed:
        body = {"apiVersion": version, "kind": kind, "spec": spec}
        answer = await self._client.request("POST", path, body=body, timeout_s=TIMEOUT_S)
        try:
            return msgspec.json.decode(answer.body, type=_Review).status
        except msgspec.MsgspecError as error:
            raise KubeError(answer.status, "", f"not a {kind}: {error}") from error


def _sentence(failure: KubeFailure) -> str:
    if isinstance(failure, KubeError) and failure.status == HTTPStatus.FORBIDDEN:
        return (
            "the scheduler may not check tokens: its ServiceAccount needs the ClusterRole "
            "system:auth-delegator"
        )
    return "the API server cannot be asked whose token this is; try again"
