"""What an API server answers otherwise: lines of a watch, pods that a Binding is looked up by."""

import json
from random import Random

from kubeshare_py.dialects.results import ALLOCATION as ANNOTATION
from kubeshare_py.domain.allocation import Allocation
from kubeshare_py.domain.effects import Bind
from kubeshare_py.domain.events import BindRefused, BindUnknown, Bound
from kubeshare_py.domain.identity import DecisionToken, NodeName, PodKey, PodUid
from kubeshare_py.manifests.binding import Doubt, read_outcome, read_refusal
from kubeshare_py.manifests.reports import read_published
from kubeshare_py.manifests.watch import BOOKMARK, ERROR, INITIAL_EVENTS_END, InitialList
from tests.fuzz import odd
from tests.fuzz.family import Family, loaded, said, text_at
from tests.fuzz.objects import KEYS, PODS
from tests.valid_objects import ALLOCATION, POD

_ENDS = {INITIAL_EVENTS_END: "true"}
_MARK = {"type": BOOKMARK, "object": {"metadata": {"resourceVersion": "9", "annotations": _ENDS}}}
_GONE = {"type": ERROR, "object": {"kind": "Status", "code": 410, "message": "too old"}}
_LINES = [
    json.dumps(one)
    for one in (
        *({"type": change, "object": POD} for change in ("ADDED", "MODIFIED", "DELETED")),
        _MARK,
        _GONE,
    )
]
_GOOD = [
    b'{"type":"ADDED","object":{"metadata":{"name":"%s"}}}' % name for name in (b"one", b"two")
]


def _odd_line(rng: Random) -> bytes:
    made = odd.changed(rng, json.loads(rng.choice(_LINES)), (*KEYS, "type", "object", "code"), 3)
    written = odd.as_bytes(made)
    return odd.broken(rng, written) if rng.random() < 0.4 else written


def judge_line(written: bytes) -> None:
    """A line has an object or says what is wrong; the lines beside it are read."""
    line = PODS.line(written)
    assert (line.item is None) or line.problem is None
    is_json, value = loaded(written)
    change = text_at(value, "type")
    if is_json and change and "object" in value:
        assert line.type == change, "a line of JSON is no event"
    if line.type == ERROR or (line.item is None and line.type != BOOKMARK):
        assert line.problem is not None
        assert len(line.problem.text) <= 4096
    if line.type == BOOKMARK and is_json:
        assert PODS.version(line) == text_at(value, "object", "metadata", "resourceVersion")
    first = InitialList(PODS, lambda item: item)
    first.take([PODS.line(_GOOD[0]), line, PODS.line(_GOOD[1])])
    names = {item.metadata.name for item in first.items()}
    told = line.type in ("DELETED", BOOKMARK) or (line.item is None and not line.type)
    assert names >= {"one", "two"} or told or line.ends_list


_BIND = Bind(
    PodUid("u1"),
    PodKey("ns", "p"),
    NodeName("n1"),
    Allocation(token=DecisionToken("t"), cards=()),
)
_POD = {**POD, "spec": {"nodeName": "n1"}}
_POD["metadata"] = {**POD["metadata"], "annotations": {ANNOTATION: ALLOCATION}}
_WORDS = (
    "is already assigned to node",
    "is being deleted",
    "UID in precondition",
    "schedulingGates",
)


def _odd_answer(rng: Random) -> list[object]:
    body = odd.as_bytes(odd.changed(rng, json.loads(json.dumps(_POD)), KEYS, 2))
    if rng.random() < 0.2:
        body = odd.broken(rng, body)
    status = rng.choice((200, 400, 401, 403, 404, 409, 422, 429, 500, 504, 0, -1))
    words = [odd.text(rng, rng.choice(_WORDS)) for _ in range(3)]
    return [body, status, *words]


def judge_outcome(given: list[object]) -> None:
    """A Binding counts as stored only if the pod carries our token on a node."""
    body, status, reason, kind, message = given
    assert isinstance(body, bytes)
    assert isinstance(status, int)
    said_by_it = {
        is_status: read_refusal(status, str(reason), str(kind), str(message), is_status=is_status)
        for is_status in (False, True)
    }
    assert said_by_it[False] is Doubt.AGAIN or status in (404, 409)
    assert said_by_it[True] is Doubt.AGAIN or 400 <= status < 500
    outcome = read_outcome(body, _BIND, str(message)[:100])
    is_json, value = loaded(body)
    node = text_at(value, "spec", "nodeName")
    ours = '"t"' in text_at(value, "metadata", "annotations", ANNOTATION)
    if isinstance(outcome, Bound) and is_json:
        assert node
        assert ours
        assert text_at(value, "metadata", "uid") == "u1"
    # Names of nodes are as long as an API server lets them be.
    if isinstance(outcome, BindRefused | BindUnknown) and len(node) < 300:
        said(outcome.message)
    told = read_published(body, PodUid("u1"))
    assert told is None or not is_json or not node


FAMILIES = (
    Family(name="lines", make=_odd_line, judge=judge_line, share=5),
    Family(name="outcomes", make=_odd_answer, judge=judge_outcome, share=2),
)
