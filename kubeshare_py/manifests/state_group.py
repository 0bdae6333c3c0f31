"""The scheduler's state as an API group behind kube-apiserver: discovery, objects and tables.

Which proxies may name the user of a request is in the API server's settings, which are read here,
and what the API server says of a user.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from kubeshare_py.domain.gpu import WHOLE_MILLI
from kubeshare_py.domain.printable import printable
from kubeshare_py.manifests.api_paths import collection_path
from kubeshare_py.views.view import (
    CardView,
    ClusterView,
    ContainerView,
    NodeView,
    PodView,
    ProspectView,
    SchedulerView,
    TenantView,
)

# The API group of the scheduler's state, as kube-apiserver and kubectl discover it.
#
# https://kubernetes.io/docs/reference/using-api/api-concepts/#discovery-api


GROUP, VERSION = "state.kubeshare.io", "v1"
API_VERSION = f"{GROUP}/{VERSION}"
#: The group's path, and the name of its APIService.
ROOT = f"/apis/{API_VERSION}"
API_SERVICE = f"{VERSION}.{GROUP}"
GPUS, PODS, REVIEWS, SCHEDULERS = "gpus", "pods", "placementreviews", "schedulers"
#: The one object of this resource is all that the scheduler knows now.
SNAPSHOTS, CURRENT = "snapshots", "current"
#: The kinds: one pod with the reasons for where it is, many pods, all cards.
POD, POD_LIST, GPU, GPU_LIST = "PodState", "PodStateList", "GPU", "GPUList"
#: What would become of a pod; the schedulerNames that pods may have.
REVIEW, SCHEDULER, SCHEDULER_LIST = "PlacementReview", "Scheduler", "SchedulerList"
SNAPSHOT = "Snapshot"

Json = dict[str, Any]

_DISCOVERY = "apidiscovery.k8s.io"
_KINDS: Mapping[str, tuple[str, str, bool, tuple[str, ...]]] = {
    GPUS: (GPU, "gpu", False, ("get", "list")),
    PODS: (POD, "podstate", True, ("get", "list")),
    REVIEWS: (REVIEW, "placementreview", True, ("create",)),
    SCHEDULERS: (SCHEDULER, "scheduler", True, ("list",)),
    SNAPSHOTS: (SNAPSHOT, "snapshot", False, ("get",)),
}
_REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    413: "RequestEntityTooLarge",
    422: "Invalid",
    429: "TooManyRequests",
    503: "ServiceUnavailable",
}


def status(code: int, message: str, resource: str = "", name: str = "") -> Json:
    """An error in the form of the Kubernetes API."""
    details = {"group": GROUP, "kind": resource} if resource else {}
    if name:
        details["name"] = name
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": _REASONS.get(code, "InternalError"),
        **({"details": details} if details else {}),
        "code": code,
    }


def resource_list() -> Json:
    """GET /apis/state.kubeshare.io/v1."""
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": API_VERSION,
        "resources": [
            {
                "name": plural,
                "singularName": singular,
                "namespaced": namespaced,
                "kind": kind,
                "verbs": list(verbs),
            }
            for plural, (kind, singular, namespaced, verbs) in _KINDS.items()
        ],
    }


def group() -> Json:
    """GET /apis/state.kubeshare.io."""
    return {"kind": "APIGroup", "apiVersion": "v1", **_group()}


def group_list() -> Json:
    """GET /apis."""
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_group()]}


def discovery_type(accept: str) -> str:
    """The content type of aggregated discovery that a client prefers; "" if none."""
    for part in accept.split(","):
        media, *options = (piece.strip() for piece in part.split(";"))
        given = dict(option.partition("=")[::2] for option in options)
        if media == "application/json" and given.get("g") == _DISCOVERY:
            if given.get("v") in ("v2", "v2beta1"):
                return f"{media};g={_DISCOVERY};v={given['v']};as=APIGroupDiscoveryList"
        elif media in ("application/json", "*/*") and "g" not in given:
            return ""
    return ""


def group_discovery(content_type: str) -> Json:
    """GET /apis in the aggregated form."""
    version = "v2beta1" if "v=v2beta1" in content_type else "v2"
    resources = [
        {
            "resource": plural,
            "responseKind": {"group": GROUP, "version": VERSION, "kind": kind},
            "scope": "Namespaced" if namespaced else "Cluster",
            "singularResource": singular,
            "verbs": list(verbs),
        }
        for plural, (kind, singular, namespaced, verbs) in _KINDS.items()
    ]
    item = {
        "metadata": {"name": GROUP, "creationTimestamp": None},
        "versions": [{"version": VERSION, "resources": resources, "freshness": "Current"}],
    }
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": f"{_DISCOVERY}/{version}",
        "metadata": {},
        "items": [item],
    }


def openapi_v2() -> Json:
    """GET /openapi/v2: no types, because the documents are read-only."""
    return {"swagger": "2.0", "info": _info(), "paths": {}, "definitions": {}}


def openapi_v3() -> Json:
    """GET /openapi/v3: the path of each group's document."""
    return {"paths": {ROOT.lstrip("/"): {"serverRelativeURL": f"/openapi/v3{ROOT}"}}}


def _group() -> Json:
    version = {"groupVersion": API_VERSION, "version": VERSION}
    return {"name": GROUP, "versions": [version], "preferredVersion": version}


def _info() -> Json:
    return {"title": GROUP, "version": VERSION}


# The state as tables, for `kubectl get gpus.state.kubeshare.io` and `pods.state.kubeshare.io`.
#
# https://kubernetes.io/docs/reference/using-api/api-concepts/#receiving-resources-as-tables


_META = "meta.k8s.io"
_GIB = 2**30
_CARD_COLUMNS = (
    ("Node", 0),
    ("Index", 0),
    ("Model", 0),
    ("Used", 0),
    ("Memory", 0),
    ("State", 0),
    ("Pods", 0),
    ("Name", 1),
)
_POD_COLUMNS = (("Name", 0), ("State", 0), ("Node", 0), ("GPUs", 0), ("Message", 1), ("Cards", 1))


def wants_table(accept: str) -> bool:
    """Whether a client prefers a table."""
    first = accept.split(",", maxsplit=1)[0]
    media, *options = (piece.strip() for piece in first.split(";"))
    given = dict(option.partition("=")[::2] for option in options)
    wanted = {"as": "Table", "g": _META, "v": "v1"}
    return media == "application/json" and given.items() >= wanted.items()


def table(rows: list[Json], *, of_cards: bool) -> Json:
    """The table of these rows."""
    columns = _CARD_COLUMNS if of_cards else _POD_COLUMNS
    definitions = [
        {
            "name": name,
            "type": "string",
            "format": "name" if name == "Name" else "",
            "description": "",
            "priority": priority,
        }
        for name, priority in columns
    ]
    return {
        "kind": "Table",
        "apiVersion": f"{_META}/v1",
        "metadata": {},
        "columnDefinitions": definitions,
        "rows": rows,
    }


def card_rows(portion: ClusterView) -> Iterator[Json]:
    """A row for each card."""
    for node in portion.nodes:
        for card in node.cards:
            yield _row(_card_cells(node, card), card.uuid)


def pod_rows(portion: ClusterView) -> Iterator[Json]:
    """A row for each pod."""
    for pod in portion.pods:
        yield pod_row(pod)


def pod_row(pod: PodView) -> Json:
    """The row of one pod."""
    containers = [one for one in pod.containers if one.count]
    claims: Sequence[PodView | ContainerView] = containers or [pod]
    asked = " + ".join(f"{one.count} x {_share(one.milli)}" if one.count else "0" for one in claims)
    cells = [pod.name, pod.state, pod.node, asked, pod.message, ",".join(pod.cards)]
    return _row(cells, pod.name, pod.namespace)


def _card_cells(node: NodeView, card: CardView) -> list[str]:
    named = [f"{one.namespace}/{one.name}" for one in card.tenants if one.name]
    hidden = len(card.tenants) - len(named)
    pods = named + ([f"{hidden} more"] if hidden else [])
    return [
        node.name,
        str(card.index) if card.index >= 0 else "",
        card.model,
        f"{_share(card.used_milli)}/{_share(card.capacity_milli)}",
        f"{card.used_bytes / _GIB:.0f}/{card.memory_bytes / _GIB:.0f}GiB",
        state_of(node, card),
        ",".join(pods),
        card.uuid,
    ]


def state_of(node: NodeView, card: CardView) -> str:
    """What keeps new pods off the card, `Ready` if nothing does; as kubectl shows Nodes."""
    if not card.known:
        return "Unknown"
    words = []
    if not card.healthy:
        words.append("ClaimedTwice" if card.claimed_by else "Unhealthy")
    if card.cordoned:
        words.append("Cordoned")
    if node.not_ready:
        words.append("NotReady")
    if node.unschedulable:
        words.append("SchedulingDisabled")
    if node.silent:
        words.append("Silent")
    return ",".join(words) or "Ready"


def _share(milli: int) -> str:
    return f"{milli / WHOLE_MILLI:.3g}"


def _row(cells: list[str], name: str, namespace: str = "") -> Json:
    metadata: Json = {"name": name, "creationTimestamp": None}
    if namespace:
        metadata["namespace"] = namespace
    shown = {"kind": "PartialObjectMetadata", "apiVersion": f"{_META}/v1", "metadata": metadata}
    return {"cells": [printable(cell) for cell in cells], "object": shown}


# Cards and pods as objects of the group `state.kubeshare.io`, as `kubectl get -o yaml` shows them.
#
# https://kubernetes.io/docs/reference/using-api/api-concepts/#collections


_SCHEMA = "io.kubeshare.state.v1.GPU"
_KIND = [{"group": GROUP, "version": VERSION, "kind": GPU}]
_TEXT, _NUMBER = {"type": "string"}, {"type": "integer", "format": "int64"}
#: The fields of a GPU's status with their types and what they say.
_STATUS: dict[str, tuple[Json, str]] = {
    "node": (_TEXT, "The node that the card is in."),
    "index": (_NUMBER, "The card's index on its node; absent if that is not known."),
    "model": (_TEXT, "The card's model, as its driver names it."),
    "state": (_TEXT, "What keeps new pods off the card, Ready if nothing does."),
    "capacityMilli": (_NUMBER, "What pods may hold of the card, in thousandths of a card."),
    "usedMilli": (_NUMBER, "What pods hold of it, in thousandths of a card."),
    "memoryBytes": (_NUMBER, "What pods may hold of its memory, in bytes."),
    "usedBytes": (_NUMBER, "What pods hold of its memory, in bytes."),
    "busyMilli": (_NUMBER, "Thousandths of the time in which it was busy; absent if not known."),
    "inUseBytes": (_NUMBER, "What is really used of its memory, in bytes; absent if not known."),
}
_POD_FIELDS: dict[str, tuple[Json, str]] = {
    "namespace": (_TEXT, "The pod's namespace; absent if the reader may not see it."),
    "name": (_TEXT, "The pod's name; absent if the reader may not see it."),
    "milli": (_NUMBER, "The pod's share of the card, in thousandths."),
    "memoryBytes": (_NUMBER, "The pod's part of the card's memory, in bytes."),
}


def card_objects(portion: ClusterView) -> Iterator[Json]:
    """A GPU for each card."""
    for node in portion.nodes:
        for card in node.cards:
            yield card_object(node, card)


def card_object(node: NodeView, card: CardView) -> Json:
    """One card as a GPU; its name is its uuid."""
    status: Json = {
        "node": node.name,
        "model": card.model,
        "state": state_of(node, card),
        "capacityMilli": card.capacity_milli,
        "usedMilli": card.used_milli,
        "memoryBytes": card.memory_bytes,
        "usedBytes": card.used_bytes,
        "pods": [_tenant(one) for one in card.tenants],
    }
    if card.index >= 0:
        status["index"] = card.index
    for name, value in (("busyMilli", card.busy_milli), ("inUseBytes", card.in_use_bytes)):
        if value is not msgspec.UNSET:
            status[name] = value
    head = {"kind": GPU, "apiVersion": API_VERSION, "metadata": {"name": card.uuid}}
    return {**head, "status": status}


def pod_objects(portion: ClusterView) -> Iterator[Json]:
    """A PodState for each pod, without the reasons that a single one has."""
    for pod in portion.pods:
        metadata = {"namespace": pod.namespace, "name": pod.name, "uid": pod.uid}
        head = {"kind": POD, "apiVersion": API_VERSION, "metadata": metadata}
        yield {**head, "pod": msgspec.to_builtins(pod)}


def scheduler_list(schedulers: Iterable[SchedulerView]) -> Json:
    """A SchedulerList; an object's name is its schedulerName."""
    items = [
        {
            "kind": SCHEDULER,
            "apiVersion": API_VERSION,
            "metadata": {"name": one.name},
            "dialects": list(one.dialects),
            "extender": one.extender,
        }
        for one in schedulers
    ]
    head = {"kind": SCHEDULER_LIST, "apiVersion": API_VERSION, "metadata": {}}
    return {**head, "items": items}


class _Named(msgspec.Struct):
    name: str = ""


class _ListedScheduler(msgspec.Struct):
    metadata: _Named
    dialects: tuple[str, ...] = ()
    extender: bool = False


class SchedulerList(msgspec.Struct):
    """A `scheduler_list` as a client reads it."""

    items: tuple[_ListedScheduler, ...]

    @property
    def schedulers(self) -> tuple[SchedulerView, ...]:
        """The scheduler's profiles."""
        return tuple(
            SchedulerView(name=one.metadata.name, dialects=one.dialects, extender=one.extender)
            for one in self.items
        )


def placement_review(namespace: str, pod: Mapping[str, Any]) -> tuple[str, Json]:
    """The path and the body of the question what would become of a pod."""
    body = {"kind": REVIEW, "apiVersion": API_VERSION, "spec": {"pod": pod}}
    return collection_path(ROOT, REVIEWS, namespace), body


class AnsweredReview(msgspec.Struct):
    """The answer to it."""

    status: ProspectView


def openapi_v3_schema() -> Json:
    """The schema of a GPU, for `kubectl explain gpus`."""
    pod = {"type": "object", "properties": _properties(_POD_FIELDS)}
    pods = {"type": "array", "items": pod, "description": "The pods that hold part of the card."}
    status = {
        "type": "object",
        "description": "What the scheduler knows of the card now.",
        "properties": {**_properties(_STATUS), "pods": pods},
    }
    metadata = {"type": "object", "description": "Its name is the card's uuid."}
    schema = {
        "type": "object",
        "description": "GPU is a card or MIG instance as the scheduler knows it; it is read-only.",
        "properties": {
            "apiVersion": _TEXT,
            "kind": _TEXT,
            "metadata": metadata,
            "status": status,
        },
        "x-kubernetes-group-version-kind": _KIND,
    }
    answer = {"description": "OK", "content": {"application/json": {"schema": _reference()}}}
    operation = {
        "operationId": "listGPU",
        "responses": {"200": answer},
        "x-kubernetes-action": "list",
        "x-kubernetes-group-version-kind": _KIND[0],
    }
    return {
        "openapi": "3.0.0",
        "info": {"title": GROUP, "version": VERSION},
        "paths": {f"{ROOT}/{GPUS}": {"get": operation}},
        "components": {"schemas": {_SCHEMA: schema}},
    }


def _reference() -> Json:
    return {"$ref": f"#/components/schemas/{_SCHEMA}"}


def _properties(fields: dict[str, tuple[Json, str]]) -> Json:
    return {name: {**kind, "description": text} for name, (kind, text) in fields.items()}


def _tenant(one: TenantView) -> Json:
    named = {"namespace": one.namespace, "name": one.name} if one.name else {}
    return {**named, "milli": one.milli, "memoryBytes": one.memory_bytes}


# The API server's settings of the proxy that forwards requests to extension servers.
#
# ConfigMap kube-system/extension-apiserver-authentication:
# https://kubernetes.io/docs/tasks/extend-kubernetes/configure-aggregation-layer/


#: The ConfigMap's path.
PATH = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"


class BadRequestHeader(ValueError):
    """The ConfigMap cannot be used; the text names the key and the problem."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestHeader:
    """Which proxies may name users, and in which headers.

    `authorities` is PEM, "" if the aggregation layer is off. `names` are common names of client
    certificates; if empty, every certificate of these authorities is accepted.
    """

    authorities: str = ""
    names: frozenset[str] = frozenset()
    user: tuple[str, ...] = ("X-Remote-User",)
    uid: tuple[str, ...] = ("X-Remote-Uid",)
    group: tuple[str, ...] = ("X-Remote-Group",)
    extra: tuple[str, ...] = ("X-Remote-Extra-",)


def read_request_header(config_map: Mapping[str, Any]) -> RequestHeader:
    """Read the ConfigMap. Raises BadRequestHeader.

    If every client's certificate would be accepted as a proxy's, none is: users of a cluster with
    one authority for both could otherwise impersonate others.
    """
    data: Mapping[str, str] = config_map.get("data") or {}
    authorities = data.get("requestheader-client-ca-file", "").strip()
    names = frozenset(_list(data, "requestheader-allowed-names", ()))
    if authorities and not names and authorities == data.get("client-ca-file", "").strip():
        raise BadRequestHeader(
            "requestheader-client-ca-file is client-ca-file and requestheader-allowed-names is "
            "empty: every user could act as every other one"
        )
    defaults = RequestHeader()
    return RequestHeader(
        authorities=authorities,
        names=names,
        user=_list(data, "requestheader-username-headers", defaults.user),
        uid=_list(data, "requestheader-uid-headers", defaults.uid),
        group=_list(data, "requestheader-group-headers", defaults.group),
        extra=_list(data, "requestheader-extra-headers-prefix", defaults.extra),
    )


def _list(data: Mapping[str, str], key: str, default: tuple[str, ...]) -> tuple[str, ...]:
    """A JSON list of texts; `default` if it is empty or missing. Raises BadRequestHeader."""
    text = data.get(key, "")
    if not text:
        return default
    try:
        found = json.loads(text)
    except ValueError as error:
        raise BadRequestHeader(f"{key} is no JSON: {text!r}") from error
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise BadRequestHeader(f"{key} is no list of texts: {text!r}")
    return tuple(found) or default


# What the API server says of users: of a token's owner, and of the user that asks.
#
# https://kubernetes.io/docs/reference/access-authn-authz/authorization/#checking-api-access


#: These are asked with a user's own token.
SELF_REVIEWS = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
SELF_ACCESS_REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


class UserInfo(msgspec.Struct, frozen=True):
    """UserInfo of the API server; what the user may do can depend on all of it."""

    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, tuple[str, ...]] = {}


class Reviewed(msgspec.Struct):
    """The status of any review: `user` of a TokenReview, `self_user` of a SelfSubjectReview."""

    authenticated: bool = False
    user: UserInfo = UserInfo()
    self_user: UserInfo = msgspec.field(default=UserInfo(), name="userInfo")
    error: str = ""
    allowed: bool = False
    denied: bool = False

    @property
    def is_allowed(self) -> bool:
        """What a review of access says."""
        return self.allowed and not self.denied


class _Review(msgspec.Struct):
    status: Reviewed


def reviewed(body: bytes) -> Reviewed:
    """Read a review that was answered. Raises UNDECODABLE."""
    return msgspec.json.decode(body, type=_Review).status


def self_review() -> Json:
    """The question which user asks."""
    return {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}


def self_access_review(resource: str, namespace: str = "") -> Json:
    """Whether the user may list these objects of the state, in all namespaces for ""."""
    asked = {"verb": "list", "group": GROUP, "version": VERSION, "resource": resource}
    return {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {**asked, "namespace": namespace}},
    }
