"""The inputs and outputs of the API server's pure half."""

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec

from kubeshare_py.embedded_cluster.protocol.mutation import Mutation, unchanged
from kubeshare_py.embedded_cluster.protocol.resources import Admission, Resource
from kubeshare_py.embedded_cluster.protocol.status import ApiRefusal, Json
from kubeshare_py.embedded_cluster.protocol.store import ApiStore

if TYPE_CHECKING:
    from kubeshare_py.embedded_cluster.protocol.watches import Subscription

JSON = "application/json"
ADMIN_GROUPS = ("system:masters", "system:authenticated")


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestUser:
    """The user of a request; the edge has authenticated it."""

    name: str = "admin"
    groups: tuple[str, ...] = ADMIN_GROUPS


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiRequest:
    """One HTTP request; `query` holds the first value of each parameter."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    accept: str = JSON
    content_type: str = ""
    body: bytes = b""
    user: RequestUser = RequestUser()


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiResponse:
    """One complete HTTP response."""

    status: int = 200
    body: bytes = b""
    content_type: str = JSON
    headers: Sequence[tuple[str, str]] = ()

    def json(self) -> Json:
        """The body decoded, for tests and in-process callers."""
        decoded: Json = msgspec.json.decode(self.body)
        return decoded


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchAnswer:
    """A 200 whose body is a stream: send what `subscription` has pending, wait, send more."""

    subscription: "Subscription"
    timeout_s: float | None = None
    bookmarks: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A request whose URL was parsed, with the inputs of its answer."""

    request: ApiRequest
    resource: Resource
    store: ApiStore
    rng: random.Random
    now: float
    kinds: Iterable[Resource] = ()
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    mutation: Mutation = unchanged

    def admission(self) -> Admission:
        """The inputs of admission of a new object."""
        return Admission(now=self.now, rng=self.rng, store=self.store)

    def option(self, name: str) -> str:
        """A query parameter, "" when absent."""
        return self.request.query.get(name, "")


def json_response(
    body: object, status: int = 200, headers: Sequence[tuple[str, str]] = ()
) -> ApiResponse:
    """A response of one JSON value."""
    return ApiResponse(status=status, body=msgspec.json.encode(body), headers=headers)


def refusal_response(refusal: ApiRefusal) -> ApiResponse:
    """The Status of a refusal."""
    return json_response(refusal.status, refusal.code, tuple(refusal.headers.items()))
