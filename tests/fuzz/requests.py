"""What pods' owners write: labels and annotations, allocations, and pods before a webhook."""

import base64
import json
import re
from fractions import Fraction
from math import ceil
from random import Random
from typing import Any

from kubeshare_py.admission.review import Rules, answer, answer_of_others
from kubeshare_py.configuration.scheduler import SCHEDULER_NAME
from kubeshare_py.dialects import sharedgpu
from kubeshare_py.dialects.allocation import read_allocation, whole_cards_of, write_allocation
from kubeshare_py.dialects.pod_keys import ASKING_ANNOTATIONS, LABELS
from kubeshare_py.dialects.pod_request import first_problem
from kubeshare_py.domain.allocation import Allocation, ClaimCharge
from kubeshare_py.domain.card_reading import IsolationBackend, IsolationChoice
from kubeshare_py.domain.quantity import (
    CARDS_OF_NODE,
    CLAIMED_CARDS,
    GROUP_MEMBERS,
    HELD_BYTES,
    HELD_MILLI,
)
from kubeshare_py.domain.request import ContainerRef, GpuRequest
from tests.dialects.halves import DIALECTS, HALF
from tests.dialects.parsed import read
from tests.fuzz import odd
from tests.fuzz.family import Family, loaded, said, text_at
from tests.fuzz.objects import KEYS, odd_object
from tests.valid_objects import ALLOCATION, ALLOCATION_BY_CONTAINER, POD

_LABELS: dict[str, str] = POD["metadata"]["labels"]
_ANNOTATIONS: dict[str, str] = {
    "sharedgpu/gpu_models": "A100 > *",
    "sharedgpu/gpu_models_denied": "K80,T4",
    "sharedgpu/group_within": "topology.kubernetes.io/zone",
    "sharedgpu/gpu_request_of": "A100",
}
_PLAIN = re.compile(r"[0-9]+(\.[0-9]+)?", re.ASCII)
_RULES = Rules(
    choices={
        SCHEDULER_NAME: IsolationChoice(tuple(IsolationBackend)),
        "other": IsolationChoice((IsolationBackend.NONE,)),
    },
    runtime_class="nvidia",
    dialects=DIALECTS,
)


def _odd_labels(rng: Random) -> Any:
    labels = {key: one for key, one in _LABELS.items() if rng.random() < 0.6}
    annotations = {key: one for key, one in _ANNOTATIONS.items() if rng.random() < 0.2}
    for _ in range(rng.randint(1, 3)):
        given, keys = rng.choice(((labels, LABELS), (annotations, ASKING_ANNOTATIONS)))
        key = rng.choice((*keys, *given)) if rng.random() < 0.85 else odd.text(rng, "sharedgpu/gpu")
        given[key] = odd.text(rng, given.get(key, "0.5"))
    return [labels, annotations]


def judge_labels(given: Any) -> None:
    """The dialect's reading, against sums of our own."""
    labels, annotations = given
    parsed = read(labels, annotations)
    backwards = dict(reversed(labels.items())), dict(reversed(annotations.items()))
    assert parsed == read(*backwards), "the order of labels matters"
    problem = first_problem(labels, annotations)
    assert problem == first_problem(*backwards)
    for one in (parsed.problem, problem):
        if one is not None:
            said(str(one), one.field[:60])
            assert one.field.removeprefix("label ").removeprefix("annotation ") in (
                *labels,
                *annotations,
                *LABELS,
            )
    assert -1 <= parsed.priority <= 100
    if parsed.group is not None:
        assert GROUP_MEMBERS.allows(parsed.group.headcount)
        assert 0 <= parsed.group.min_available <= parsed.group.headcount
    if parsed.request is not None:
        assert parsed.problem is None
        _amounts(parsed.request, labels)


def _amounts(request: GpuRequest, labels: dict[str, str]) -> None:
    claim = request.claims[0].claim
    assert CLAIMED_CARDS.allows(claim.count)
    assert claim.memory_bytes is None or HELD_BYTES.allows(claim.memory_bytes)
    said_amount, limit = labels.get(sharedgpu.REQUEST), labels.get(sharedgpu.LIMIT)
    for text in (said_amount, limit):
        assert text is None or _PLAIN.fullmatch(text), "no number is taken for one"
    alone = labels.get(sharedgpu.EXCLUSIVE) == "true"
    share = Fraction(said_amount or (limit or "1" if alone else "0"))
    assert claim.count == (1 if share <= 1 else int(share))
    assert claim.milli == min(1000, ceil(share * 1000))
    assert claim.exclusive == (share > 1 or alone)
    memory = labels.get(sharedgpu.MEMORY)
    if memory is not None and memory.isascii() and memory.isdecimal():
        assert (claim.memory_bytes or 0) * claim.count >= int(memory)
        assert (claim.memory_bytes or 0) * claim.count < int(memory) + claim.count


_ALLOCATIONS = [
    ALLOCATION,
    ALLOCATION_BY_CONTAINER,
    ALLOCATION_BY_CONTAINER.replace('"v":2', '"v":3'),
]


def _odd_allocation(rng: Random) -> str:
    if rng.random() < 0.1:
        return odd.text(rng, rng.choice(_ALLOCATIONS))
    return odd_object(rng, _ALLOCATIONS).decode(errors="surrogateescape")


def judge_allocation(text: str) -> None:
    """An allocation within its bounds, which is written and read again; or why it is none."""
    found = read_allocation(text)
    assert found == read_allocation(text)
    whole = whole_cards_of(text)
    if isinstance(found, str):
        said(found)
        is_json, value = loaded(text.encode(errors="surrogatepass"))
        named = "`" in found or "recursion" in found
        assert not is_json or named or not isinstance(value, dict), found
        assert whole is None or "is not known" in found
        if whole is not None and is_json:
            _held_wholly(whole, value)
        return
    assert whole is None, "a known version is guessed at"
    assert len(found.cards) <= CARDS_OF_NODE.most
    assert len({card.uuid for card in found.cards}) == len(found.cards)
    for part in found.claims or [ClaimCharge(container=_FIRST, cards=found.cards)]:
        for card in part.cards:
            assert HELD_MILLI.allows(card.milli)
    for card in found.cards:
        assert HELD_BYTES.allows(card.memory_bytes)
    _adds_up(found)
    assert found.port is None or 1 <= found.port <= 65_535
    assert read_allocation(write_allocation(found)) == found


_FIRST = ContainerRef(False, 0)


def _held_wholly(found: Allocation, value: Any) -> None:
    """All cards that the text names, and no others."""
    assert 0 < len(found.cards) <= CARDS_OF_NODE.most
    assert {(card.milli, card.exclusive) for card in found.cards} == {(1000, True)}
    named = [
        one["uuid"]
        for claim in value["claims"]
        for one in (claim, *claim.get("cards", ()))
        if one.get("uuid") is not None
    ]
    assert [card.uuid for card in found.cards] == [*dict.fromkeys(named)]


def _adds_up(found: Allocation) -> None:
    """What a pod holds of a card is what its containers hold of it, by sums of our own."""
    sums: dict[str, list[int]] = {}
    for part in found.claims:
        assert len({card.uuid for card in part.cards}) == len(part.cards) > 0
        for card in part.cards:
            held = sums.setdefault(card.uuid, [0, 0, 0])
            held[0] += card.milli
            held[1] += card.memory_bytes
            held[2] |= card.exclusive
    if found.claims:
        assert sums == {
            card.uuid: [card.milli, card.memory_bytes, card.exclusive] for card in found.cards
        }


_CONTAINER = {"name": "c", "image": "i", "env": [{"name": "LD_PRELOAD", "value": "/x.so"}]}
_ASKS = {"name": "a", "image": "i", "resources": {"limits": {HALF: "1", "cpu": "1"}}}
_EPHEMERAL = {"name": "e", "image": "i"}
_REVIEWED = {
    **POD,
    "spec": {**POD["spec"], "containers": [_CONTAINER, _ASKS], "ephemeralContainers": [_EPHEMERAL]},
}
_REVIEW: Any = {
    "apiVersion": "admission.k8s.io/v1",
    "kind": "AdmissionReview",
    "request": {"uid": "r", "operation": "CREATE", "object": _REVIEWED, "oldObject": None},
}
_ADDED = {**_REVIEW["request"], "operation": "UPDATE", "subResource": "ephemeralcontainers"}
_REVIEWS = [
    json.dumps(_REVIEW),
    json.dumps({**_REVIEW, "request": {**_ADDED, "oldObject": POD}}),
]
_FIELDS = (*KEYS, "env", "volumeMounts", "valueFrom", "volumes", "runtimeClassName", "subResource")


def _odd_review(rng: Random) -> bytes:
    written = odd.as_bytes(odd.changed(rng, json.loads(rng.choice(_REVIEWS)), _FIELDS, 5))
    return odd.broken(rng, written) if rng.random() < 0.1 else written


def judge_review(body: bytes) -> None:
    """Each review is answered, and the pod is patched so that a second answer changes nothing."""
    is_json, value = loaded(body)
    # The value has null for these, and the patch may be about what is in them.
    nested = b"}" * 60 in body or b"]" * 60 in body
    for answers in (lambda given: answer(given, _RULES), answer_of_others):
        found = answers(body)
        assert found == answers(body)
        if found is None:
            continue
        response = json.loads(found)["response"]
        assert not is_json or response["uid"] == text_at(value, "request", "uid")
        for sentence in (response.get("status", {}).get("message"), *response.get("warnings", ())):
            if sentence is not None:
                said(sentence)
                assert sentence.isprintable()
        assert response["allowed"] or response["status"]["code"] == 422
        # Every pod that an API server asks about has a spec.
        if (
            is_json
            and not nested
            and "patch" in response
            and value["request"]["object"].get("spec")
        ):
            patched = json.loads(json.dumps(value))
            for step in json.loads(base64.b64decode(response["patch"])):
                _apply(patched["request"]["object"], **step)
            again = json.loads(answers(json.dumps(patched).encode()) or b"{}")
            assert "patch" not in again["response"], "a second patch is not empty"


def _apply(document: Any, op: str, path: str, value: Any) -> None:
    """One step of a JSON patch, the way RFC 6902 says."""
    assert op == "add"
    *way, last = path.lstrip("/").split("/")
    for name in way:
        document = document[int(name) if isinstance(document, list) else name]
    if isinstance(document, dict):
        document[last] = value
    else:
        at = len(document) if last == "-" else int(last)
        assert at <= len(document)
        document.insert(at, value)


FAMILIES = (
    Family(name="labels", make=_odd_labels, judge=judge_labels, share=16),
    Family(name="allocations", make=_odd_allocation, judge=judge_allocation, share=10),
    Family(name="reviews", make=_odd_review, judge=judge_review, share=3),
)
