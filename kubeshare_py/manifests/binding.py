"""The Binding: one request that assigns a pod and writes its annotations; and its answers.

The API server checks neither keys nor size of a Binding's annotations, and a pod with bad ones can
never be updated again, so they are checked here. Answers are those of kube-apiserver 1.36
(pkg/registry/core/pod/storage/storage.go): one code for many cases, distinguished by the text.
"""

import re
from collections.abc import Mapping
from enum import Enum

import msgspec

from kubeshare_py.dialects.allocation import write_allocation
from kubeshare_py.dialects.results import ALLOCATION, FENCE, result_annotations
from kubeshare_py.domain.effects import Bind
from kubeshare_py.domain.events import BindOutcome, BindRefused, BindUnknown, Bound, Refusal
from kubeshare_py.domain.remembered import remembered
from kubeshare_py.isolation.backends import isolation_results
from kubeshare_py.manifests.decoding import UNDECODABLE
from kubeshare_py.manifests.shallow_json import decoded

#: The limits of apimachinery: bytes of all keys and values, of a key's prefix, and of its name.
MAX_BYTES, MAX_PREFIX, MAX_NAME = 262_144, 253, 63

_BAD_REQUEST, _UNAUTHORIZED, _NOT_FOUND, _CONFLICT, _SERVER_ERROR = 400, 401, 404, 409, 500
#: Codes that say nothing about the Binding itself: the same one may be accepted later.
_LATER = frozenset({408, 409, 429})
#: The authorizer's words (responsewriters.ForbiddenStatusError of k8s.io/apiserver), and those of
#: policies and webhooks (plugin/policy/validating and plugin/webhook/errors of the same).
_NO_RIGHT = 'cannot create resource "pods/binding"'
_BY_ADMISSION = re.compile(r" denied (the )?request")
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?")
_PREFIX = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*")


class Doubt(Enum):
    """What to do about an answer that leaves open whether an earlier try succeeded."""

    LOOK = "read the pod: it says who bound it"
    LEAVES = "read the pod: without a node it was not bound, and will not be"
    AGAIN = "send the same Binding again later"


class _BindingMetadata(msgspec.Struct):
    uid: str
    annotations: dict[str, str] | None = None


class _BindingSpec(msgspec.Struct):
    nodeName: str = ""


class _BindingPod(msgspec.Struct):
    metadata: _BindingMetadata
    spec: _BindingSpec


class _BindingPlacement(msgspec.Struct):
    token: str


_POD = msgspec.json.Decoder(_BindingPod)
_PLACEMENT = msgspec.json.Decoder(_BindingPlacement)
_ENCODER = msgspec.json.Encoder()
_NONE: Mapping[str, str] = {}


def binding_annotations(
    bind: Bind, fence: str, of_dialect: Mapping[str, str] = _NONE
) -> dict[str, str]:
    """All annotations that the Binding writes; stale results become empty.

    `of_dialect` are those for the tools of the pod's dialect.
    """
    annotations = {**dict.fromkeys(bind.stale_results, ""), **of_dialect}
    annotations[ALLOCATION] = write_allocation(bind.allocation)
    annotations.update(result_annotations(bind.allocation))
    annotations.update(isolation_results(bind.allocation))
    if fence:
        annotations[FENCE] = fence
    return annotations


def annotation_problem(annotations: Mapping[str, str]) -> str:
    """What the API server would refuse if it checked; "" if nothing."""
    size = 0
    for key, value in annotations.items():
        if not _is_qualified(key):
            return f"annotation key {key!r} is not a qualified name"
        size += len(key.encode()) + len(value.encode())
    if size > MAX_BYTES:
        return f"annotations have {size} bytes, {MAX_BYTES} are allowed"
    return ""


@remembered(256)
def _is_qualified(key: str) -> bool:
    prefix, slash, name = key.rpartition("/")
    if len(name) > MAX_NAME or not _NAME.fullmatch(name):
        return False
    return not slash or (len(prefix) <= MAX_PREFIX and bool(_PREFIX.fullmatch(prefix.lower())))


def binding_body(
    bind: Bind, annotations: Mapping[str, str], labels: Mapping[str, str] = _NONE
) -> bytes:
    """Write the Binding; the uid keeps it from a later pod of the same name.

    API servers before Kubernetes 1.35 leave its labels out.
    """
    own = {"labels": labels} if labels else {}
    return _ENCODER.encode(
        {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {
                "namespace": bind.key.namespace,
                "name": bind.key.name,
                "uid": bind.uid,
                "annotations": annotations,
                **own,
            },
            "target": {"apiVersion": "v1", "kind": "Node", "name": bind.node},
        }
    )


def read_refusal(
    status: int, reason: str, kind: str, message: str, *, is_status: bool
) -> Refusal | Doubt:
    """What an error answer to a Binding means.

    The API server checks rights, then policies and webhooks, and only then the pod. So an answer
    with its own Status and a code below 500 says that this try was not stored; `OF_ONE_TRY` are the
    meanings that leave earlier tries open. "Is being deleted" leaves the same try open: the server
    checks that before the node, so an earlier one may have succeeded.
    """
    is_refused = is_status and _BAD_REQUEST <= status < _SERVER_ERROR
    if is_refused and _BY_ADMISSION.search(message):
        return Refusal.DENIED  # webhooks choose any code
    if status == _NOT_FOUND and kind in {"pods", "namespaces"}:
        return Refusal.GONE
    if status == _CONFLICT:
        return _of_conflict(message)
    if not is_refused or status in _LATER:
        return Doubt.AGAIN
    if status == _UNAUTHORIZED or _NO_RIGHT in message:
        return Refusal.FORBIDDEN
    is_wrong = status == _BAD_REQUEST and reason == "BadRequest"
    return Refusal.INVALID if is_wrong else Refusal.DENIED


def _of_conflict(message: str) -> Refusal | Doubt:
    """The conflict, by its text: all have one code, and most of them one reason."""
    meanings: dict[str, Refusal | Doubt] = {
        "UID in precondition": Refusal.GONE,
        "has non-empty .spec.schedulingGates": Refusal.GATED,
        "is already assigned to node": Doubt.LOOK,
        "is being deleted": Doubt.LEAVES,
    }
    return next((meanings[words] for words in meanings if words in message), Doubt.AGAIN)


def read_outcome(
    body: bytes, bind: Bind, answer: str, refused: Refusal | None = None
) -> BindOutcome:
    """What became of a Binding, by its pod; `answer` is the server's answer to it.

    `refused`: what follows for a pod without a node, if no try can be stored any more.
    """
    try:
        pod = decoded(_POD, body)
    except UNDECODABLE as error:
        return BindUnknown(f"{answer}; the pod cannot be read: {error}")
    if pod.metadata.uid != bind.uid:
        return BindRefused(Refusal.GONE, f"{bind.key} is another pod now")
    if pod.spec.nodeName:
        if _token(pod) == bind.allocation.token:
            return Bound()
        return BindRefused(Refusal.ASSIGNED, f"{bind.key} is on node {pod.spec.nodeName}")
    unbound = f"{answer}; but it has no node"
    return BindUnknown(unbound) if refused is None else BindRefused(refused, answer)


def _token(pod: _BindingPod) -> str:
    written = (pod.metadata.annotations or {}).get(ALLOCATION, "")
    try:
        return _PLACEMENT.decode(written).token
    except UNDECODABLE:
        return ""
