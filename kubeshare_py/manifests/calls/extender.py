"""What kube-scheduler sends to its extenders, and the answers.

The types are those of k8s.io/kube-scheduler/extender/v1 (types.go): Go's names of fields without
tags, so that keys begin with capitals; Go reads them in any case, and so does this module.
`NodeNames` are set if the extender is nodeCacheCapable, otherwise `Nodes` are.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgspec
from msgspec import Raw

from kubeshare_py.dialects.dialects import Dialects
from kubeshare_py.domain.events import BindAsked
from kubeshare_py.domain.identity import NodeName, PodKey, PodUid
from kubeshare_py.domain.pod import Pod
from kubeshare_py.domain.printable import printable
from kubeshare_py.manifests.pods.pod import is_finished, to_domain
from kubeshare_py.manifests.pods.pod_fields import PodFields
from kubeshare_py.manifests.shallow_json import decoded
from kubeshare_py.manifests.undecodable import UNDECODABLE


class _NodeMetadata(msgspec.Struct, frozen=True):
    name: str = ""


class _Named(msgspec.Struct, frozen=True):
    metadata: _NodeMetadata = _NodeMetadata()


class _NodeList(msgspec.Struct, frozen=True):
    items: list[Raw] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtenderQuestion:
    """`ExtenderArgs`: a pod and the nodes that are left for it, in kube-scheduler's order.

    `nodes` are the same nodes as JSON, by name, if kube-scheduler sent objects; otherwise None.
    """

    pod: Pod
    names: tuple[NodeName, ...]
    nodes: Mapping[NodeName, Raw] | None = None


class BadExtenderRequest(ValueError):
    """The body is not what kube-scheduler sends; the text says why."""


_FIELDS = msgspec.json.Decoder(dict[str, Raw])
_NAMES = msgspec.json.Decoder(list[str] | None)
_NODES = msgspec.json.Decoder(_NodeList | None)
_NODE = msgspec.json.Decoder(_Named)
_POD = msgspec.json.Decoder(PodFields)
_TEXT = msgspec.json.Decoder(str)
_ENCODER = msgspec.json.Encoder()
_NULL = Raw(b"null")


def read_question(body: bytes, dialects: Dialects) -> ExtenderQuestion:
    """The arguments of /filter and /prioritize. Raises BadExtenderRequest."""
    fields = _fields(body)
    try:
        pod = to_domain(decoded(_POD, bytes(fields.get("pod", _NULL))), dialects)
        names = _NAMES.decode(fields.get("nodenames", _NULL))
        given = None if names is not None else decoded(_NODES, bytes(fields.get("nodes", _NULL)))
        if given is not None:
            nodes = {NodeName(_NODE.decode(one).metadata.name): one for one in given.items or ()}
            return ExtenderQuestion(pod=pod, names=tuple(nodes), nodes=nodes)
    except UNDECODABLE as error:
        raise BadExtenderRequest(f"not ExtenderArgs: {error}") from error
    if names is None:
        raise BadExtenderRequest("not ExtenderArgs: it has neither NodeNames nor Nodes")
    return ExtenderQuestion(pod=pod, names=tuple(map(NodeName, names)))


def read_bind(body: bytes) -> BindAsked:
    """The arguments of /bind. Raises BadExtenderRequest."""
    fields = _fields(body)
    found = {}
    for key in ("PodName", "PodNamespace", "PodUID", "Node"):
        try:
            found[key] = _TEXT.decode(fields.get(key.lower(), _NULL))
        except UNDECODABLE as error:
            raise BadExtenderRequest(f"not ExtenderBindingArgs: {key}: {error}") from error
        if not found[key]:
            raise BadExtenderRequest(f"not ExtenderBindingArgs: {key} is empty")
    return BindAsked(
        PodUid(found["PodUID"]),
        PodKey(found["PodNamespace"], found["PodName"]),
        NodeName(found["Node"]),
    )


def read_pod(body: bytes, dialects: Dialects) -> Pod | None:
    """The pod of an API server's answer; None if it has finished or cannot be read."""
    try:
        fields = decoded(_POD, body)
    except UNDECODABLE:
        return None
    return None if is_finished(fields) else to_domain(fields, dialects)


def filter_result(
    question: ExtenderQuestion,
    fitting: Sequence[NodeName],
    failed: Iterable[tuple[NodeName, str]],
    problem: str = "",
) -> bytes:
    """`ExtenderFilterResult`.

    What an eviction would not change is so for kube-scheduler, which knows nothing of cards: all
    that failed is in FailedAndUnresolvableNodes, so that it evicts no pod for a node whose cards
    would be as full afterwards.
    """
    nodes = question.nodes
    items = None if nodes is None else [nodes[name] for name in fitting]
    return _ENCODER.encode(
        {
            "Nodes": None if items is None else {"metadata": {}, "items": items},
            "NodeNames": None if nodes is not None else fitting,
            "FailedNodes": {},
            "FailedAndUnresolvableNodes": {name: printable(why) for name, why in failed},
            "Error": printable(problem),
        }
    )


def priorities(scores: Iterable[tuple[NodeName, int]]) -> bytes:
    """`HostPriorityList`."""
    return _ENCODER.encode([{"Host": name, "Score": score} for name, score in scores])


def bind_result(problem: str = "") -> bytes:
    """`ExtenderBindingResult`; kube-scheduler takes the pod back if there is a problem."""
    return _ENCODER.encode({"Error": printable(problem)})


def _fields(body: bytes) -> dict[str, Raw]:
    """The fields by their names in small letters."""
    try:
        return {key.lower(): value for key, value in decoded(_FIELDS, body).items()}
    except UNDECODABLE as error:
        raise BadExtenderRequest(f"not a JSON object: {error}") from error
