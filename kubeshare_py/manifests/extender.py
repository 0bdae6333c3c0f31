"""What kube-scheduler sends to its extenders, and the answers.

The types are those of k8s.io/kube-scheduler/extender/v1 (types.go): Go's names of fields without
tags, so that keys begin with capitals; Go reads them in any case, and so does this module.
`NodeNames` are set if the extender is nodeCacheCapable, otherwise `Nodes` are.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import msgspec
from msgspec import Raw

from kubeshare_py.dialects.dialects import Dialects
from kubeshare_py.domain.events import BindAsked
from kubeshare_py.domain.identity import NodeName, PodKey, PodUid
from kubeshare_py.domain.pod import Pod
from kubeshare_py.domain.printable import MAX_SAID, MAX_TEXT, beginning, printable
from kubeshare_py.manifests.api_paths import is_label_name, is_subdomain_name
from kubeshare_py.manifests.client_pods import PodTooLarge, bounded_pod
from kubeshare_py.manifests.decoding import UNDECODABLE
from kubeshare_py.manifests.pods.pod import is_finished, to_domain
from kubeshare_py.manifests.pods.pod_fields import PodFields
from kubeshare_py.manifests.shallow_json import decoded


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


#: The most nodes of a question; Kubernetes' clusters have 5,000.
MOST_NODES = 2**16

_FIELDS = msgspec.json.Decoder(dict[str, Raw])
_NAMES = msgspec.json.Decoder(list[str] | None)
_NODES = msgspec.json.Decoder(_NodeList | None)
_NODE = msgspec.json.Decoder(_Named)
_POD = msgspec.json.Decoder(PodFields)
_TEXT = msgspec.json.Decoder(str)
_ENCODER = msgspec.json.Encoder()
#: API servers make uids themselves, as UUIDs; other implementations of theirs might not.
_UID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}")


class _NameRule(NamedTuple):
    holds: Callable[[str], bool]
    what: str


#: What the fields of ExtenderBindingArgs may be: they become parts of paths of requests that carry
#: this scheduler's token, and any client of the port writes them.
_NAME_RULES = {
    "PodName": _NameRule(is_subdomain_name, "RFC 1123 subdomain"),
    "PodNamespace": _NameRule(is_label_name, "RFC 1123 label"),
    "PodUID": _NameRule(lambda text: _UID.fullmatch(text) is not None, "uid"),
    "Node": _NameRule(is_subdomain_name, "RFC 1123 subdomain"),
}
_NULL = Raw(b"null")


def read_question(body: bytes, dialects: Dialects) -> ExtenderQuestion:
    """The arguments of /filter and /prioritize. Raises BadExtenderRequest."""
    fields = _fields(body)
    try:
        pod = to_domain(_pod_fields(bytes(fields.get("pod", _NULL))), dialects)
        names = _NAMES.decode(fields.get("nodenames", _NULL))
        given = None if names is not None else decoded(_NODES, bytes(fields.get("nodes", _NULL)))
        if given is not None:
            nodes = {NodeName(_NODE.decode(one).metadata.name): one for one in given.items or ()}
            return ExtenderQuestion(pod=pod, names=tuple(nodes), nodes=nodes)
    except UNDECODABLE as error:
        raise BadExtenderRequest(f"not ExtenderArgs: {error}") from error
    if names is None:
        raise BadExtenderRequest("not ExtenderArgs: it has neither NodeNames nor Nodes")
    if len(names) > MOST_NODES:
        raise BadExtenderRequest(f"not ExtenderArgs: more than {MOST_NODES} NodeNames")
    return ExtenderQuestion(pod=pod, names=tuple(map(NodeName, dict.fromkeys(names))))


def _pod_fields(text: bytes) -> PodFields:
    """Raises UNDECODABLE, and BadExtenderRequest for what no kube-scheduler can have read."""
    try:
        return bounded_pod(text)
    except PodTooLarge as error:
        raise BadExtenderRequest(f"not ExtenderArgs: {error}") from error


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
        rule = _NAME_RULES[key]
        if not rule.holds(found[key]):
            said = printable(beginning(repr(found[key]), MAX_TEXT))
            raise BadExtenderRequest(f"not ExtenderBindingArgs: {key}: {said} is no {rule.what}")
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
    nodes, texts = question.nodes, _Sentences()
    items = None if nodes is None else [nodes[name] for name in fitting]
    return _ENCODER.encode(
        {
            "Nodes": None if items is None else {"metadata": {}, "items": items},
            "NodeNames": None if nodes is not None else fitting,
            "FailedNodes": {},
            "FailedAndUnresolvableNodes": {name: texts[why] for name, why in failed},
            "Error": printable(problem),
        }
    )


class _Sentences(dict[str, str]):
    """Reasons as they are shown; thousands of nodes have the same."""

    def __missing__(self, why: str) -> str:
        """Make it once."""
        self[why] = text = printable(beginning(why, MAX_SAID))
        return text


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
