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
from kubeshare_py.manifests.state_group import GPUS, GROUP, PODS

#: The page's own header. kube-apiserver's proxy of Services takes `Authorization` for itself.
TOKEN_HEADER = "Kubeshare-Token"
#: The longest token: a service account's with many audiences has some kilobytes.
MAX_TOKEN = 16 * 1024

SELF_REVIEWS = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
ACCESS_REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"

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


class _User(msgspec.Struct):
    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, tuple[str, ...]] = {}


class _ReviewStatus(msgspec.Struct):
    user_info: _User = msgspec.field(default_factory=_User, name="userInfo")
    allowed: bool = False
    denied: bool = False


class _Review(msgspec.Struct):
    status: _ReviewStatus


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


def self_review() -> dict[str, Any]:
    """The question which user asks."""
    return {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}


def access_review(resource: str, namespace: str = "") -> dict[str, Any]:
    """The question whether one may list these objects of the state, in all namespaces for ""."""
    asked = {"verb": "list", "group": GROUP, "version": "v1", "resource": resource}
    return {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {**asked, "namespace": namespace}},
    }


#: What is asked about each viewer, in this order: paths and bodies.
QUESTIONS: tuple[tuple[str, dict[str, Any]], ...] = (
    (SELF_REVIEWS, self_review()),
    (ACCESS_REVIEWS, access_review(GPUS)),
    (ACCESS_REVIEWS, access_review(PODS)),
)


def viewer_of(token: str, answers: tuple[bytes, bytes, bytes]) -> Viewer | ViewerRefusal:
    """The viewer by the answers to QUESTIONS. Raises UNDECODABLE for other answers."""
    about, cards, pods = (msgspec.json.decode(one, type=_Review).status for one in answers)
    user = about.user_info
    if not user.username:
        return BAD_TOKEN
    if not _is_allowed(cards):
        return ViewerRefusal(
            FORBIDDEN,
            f'User "{user.username}" cannot list resource "{GPUS}" in API group "{GROUP}" at the '
            "cluster scope: the ClusterRole kubeshare-gpu-reader allows it",
        )
    sees_all = _is_allowed(pods)
    return Viewer(
        id=viewer_id(token),
        name=user.username,
        audience=EVERYTHING if sees_all else _own_audience(user),
        sees_all=sees_all,
    )


def is_allowed(answer: bytes) -> bool:
    """What an `access_review` was answered. Raises UNDECODABLE for another answer."""
    return _is_allowed(msgspec.json.decode(answer, type=_Review).status)


def _is_allowed(status: _ReviewStatus) -> bool:
    return status.allowed and not status.denied


def _own_audience(user: _User) -> Audience:
    """That of one user with these groups: what others may see may differ, in any namespace."""
    extra = {key: texts for key, texts in user.extra.items() if key != CREDENTIAL_ID}
    known = (user.username, user.uid, sorted(user.groups), extra)
    told = msgspec.json.encode(known, order="sorted")
    return Audience(hashlib.sha256(told).hexdigest())
