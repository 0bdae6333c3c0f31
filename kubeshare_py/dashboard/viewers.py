"""The viewers of the page: a request's token, its user, and the viewers that it may share with.

The dashboard has no rights of its own. It asks the API server, with the viewer's token, which user
that is and what it may do, and reads the state with that token.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

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

#: The page's own header. kube-apiserver's proxy of Services takes `Authorization` for itself.
TOKEN_HEADER = "Kubeshare-Token"
#: The longest token: a service account's with many audiences has some kilobytes.
MAX_TOKEN = 16 * 1024

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
