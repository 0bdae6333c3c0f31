"""The viewers of the page: a request's token, its user, and the viewers that it may share with.

The dashboard has no rights of its own. It asks the API server, with the viewer's token, which user
that is and what it may do, and reads the state with that token.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec

from kubeshare_py.dashboard.fan_out import Audience, ViewerId
from kubeshare_py.manifests.state_group import (
    GPUS,
    GROUP,
    PODS,
    SELF_ACCESS_REVIEWS,
    SELF_REVIEWS,
    UserInfo,
    reviewed,
    self_access_review,
    self_review,
)

K = TypeVar("K")
V = TypeVar("V")
#: The page's own header. kube-apiserver's proxy of Services takes `Authorization` for itself.
TOKEN_HEADER = "Kubeshare-Token"
#: The longest token: a service account's with many audiences has some kilobytes.
MAX_TOKEN = 16 * 1024
#: For how long (s) an answer about a viewer is believed, and of how many viewers and refused tokens
#: it is remembered.
KEPT_S, MAX_KEPT, MAX_REFUSED = 10.0, 1024, 1024

#: Of all who may list cards, and pods in all namespaces: the state API names every pod to them.
EVERYTHING = Audience("everything")


@dataclass(frozen=True, slots=True)
class ViewerRefusal:
    """The HTTP status to answer with, and a sentence."""

    status: int
    message: str


#: Of a user's `extra`, what differs from token to token, not what its user may see:
#: CredentialIDKey of k8s.io/apiserver/pkg/authentication/user.
CREDENTIAL_ID = "authentication.kubernetes.io/credential-id"

UNAUTHORIZED, FORBIDDEN = 401, 403
NO_TOKEN = ViewerRefusal(UNAUTHORIZED, "sign in: a token of the cluster is needed")
BAD_TOKEN = ViewerRefusal(UNAUTHORIZED, "the API server does not accept this token")


@dataclass(frozen=True, slots=True, kw_only=True)
class Viewer:
    """A user of the cluster. `sees_all`: pods of every namespace are named to it."""

    id: ViewerId
    name: str
    audience: Audience
    sees_all: bool


def token_of(headers: Mapping[str, str]) -> str | ViewerRefusal:
    """The token that a request shows: the page's own header, or a bearer token of a proxy."""
    token = headers.get(TOKEN_HEADER, "").strip()
    if not token:
        scheme, _, given = headers.get("Authorization", "").partition(" ")
        token = given.strip() if scheme.lower() == "bearer" else ""
    if not token:
        return NO_TOKEN
    # Other characters would end the header in which it is sent on.
    is_one = token.isascii() and token.isprintable() and " " not in token
    return token if is_one and len(token) <= MAX_TOKEN else BAD_TOKEN


def viewer_id(token: str) -> ViewerId:
    """What stands for a token wherever it need not be known."""
    return ViewerId(hashlib.sha256(token.encode()).hexdigest())


#: What is asked about each viewer, in this order: paths and bodies.
QUESTIONS: tuple[tuple[str, dict[str, Any]], ...] = (
    (SELF_REVIEWS, self_review()),
    (SELF_ACCESS_REVIEWS, self_access_review(GPUS)),
    (SELF_ACCESS_REVIEWS, self_access_review(PODS)),
)


def viewer_of(token: str, answers: tuple[bytes, bytes, bytes]) -> Viewer | ViewerRefusal:
    """The viewer by the answers to QUESTIONS. Raises UNDECODABLE for other answers."""
    about, cards, pods = map(reviewed, answers)
    user = about.self_user
    if not user.username:
        return BAD_TOKEN
    if not cards.is_allowed:
        return ViewerRefusal(
            FORBIDDEN,
            f'User "{user.username}" cannot list resource "{GPUS}" in API group "{GROUP}" at the '
            "cluster scope: the ClusterRole kubeshare-gpu-reader allows it",
        )
    sees_all = pods.is_allowed
    return Viewer(
        id=viewer_id(token),
        name=user.username,
        audience=EVERYTHING if sees_all else _own_audience(user),
        sees_all=sees_all,
    )


def _own_audience(user: UserInfo) -> Audience:
    """That of one user with these groups: what others may see may differ, in any namespace."""
    extra = {key: texts for key, texts in user.extra.items() if key != CREDENTIAL_ID}
    known = (user.username, user.uid, sorted(user.groups), extra)
    told = msgspec.json.encode(known, order="sorted")
    return Audience(hashlib.sha256(told).hexdigest())


class KnownViewers:
    """What was found out about viewers, believed for KEPT_S. Times are monotonic seconds.

    Of viewers and of refused tokens the newest are remembered, each on their own: however many
    tokens are made up, no viewer is forgotten for them.
    """

    def __init__(self) -> None:
        self._viewers: Newest[ViewerId, Viewer] = Newest(MAX_KEPT)
        self._refused: Newest[ViewerId, ViewerRefusal] = Newest(MAX_REFUSED)

    def answer(self, viewer: ViewerId, now: float) -> Viewer | ViewerRefusal | None:
        """What is believed of it; None if nothing is."""
        return self._viewers.answer(viewer, now) or self._refused.answer(viewer, now)

    def is_known(self, viewer: ViewerId) -> bool:
        """Whether it was let in when it was last asked about, however long ago."""
        return viewer in self._viewers.kept

    def believed_s(self, viewer: ViewerId, now: float) -> float:
        """For how long it is let in from now on; negative if it is not."""
        kept = self._viewers.kept.get(viewer)
        return -1.0 if kept is None else kept[0] - now

    def keep(self, viewer: ViewerId, found: Viewer | ViewerRefusal, now: float) -> None:
        """Remember an answer, unless it is only that there was none."""
        if isinstance(found, Viewer):
            self._refused.kept.pop(viewer, None)
            self._viewers.keep(viewer, found, now + KEPT_S)
        elif found.status in (UNAUTHORIZED, FORBIDDEN):
            self._viewers.kept.pop(viewer, None)
            self._refused.keep(viewer, found, now + KEPT_S)


class Newest(Generic[K, V]):
    """Answers with the time until which they are believed; beyond `most` the oldest is dropped."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.kept: OrderedDict[K, tuple[float, V]] = OrderedDict()

    def answer(self, key: K, now: float) -> V | None:
        """What is believed; None if nothing is."""
        until, answer = self.kept.get(key, (now, None))
        return answer if now < until else None

    def keep(self, key: K, answer: V, until: float) -> None:
        """Remember an answer, believed until then (s)."""
        self.kept[key] = until, answer
        self.kept.move_to_end(key)
        if len(self.kept) > self._most:
            self.kept.popitem(last=False)
