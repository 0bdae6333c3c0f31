"""Objects of the API as lists and watches bring them: pods, nodes, groups, budgets and Leases."""

import itertools
import json
from collections.abc import Callable
from random import Random
from typing import Any

import msgspec

from kubeshare_py.dialects.pod_keys import ASKING_ANNOTATIONS, LABELS, RESULT_ANNOTATIONS
from kubeshare_py.documents.yaml_text import YamlProblem, read_yaml_documents
from kubeshare_py.domain.cluster_objects import GroupApi
from kubeshare_py.domain.events import (
    BudgetSeen,
    NodeSeen,
    ObjectGone,
    ObjectSeen,
    PodGroupSeen,
    PodSeen,
)
from kubeshare_py.domain.pod import Pod
from kubeshare_py.domain.printable import listed
from kubeshare_py.domain.quantity import INT32, MAX
from kubeshare_py.manifests import events
from kubeshare_py.manifests.events import WATCHED, BudgetFields, WatchedObjects
from kubeshare_py.manifests.lease import read_lease
from kubeshare_py.manifests.node import NodeFields
from kubeshare_py.manifests.pod_check import KnownSchedulers, check
from kubeshare_py.manifests.pod_group import PodGroupFields
from kubeshare_py.manifests.pods.pod_fields import PodFields
from kubeshare_py.manifests.watch import Codec, Problem, UnreadableAnswer
from kubeshare_py.manifests.workloads import NoTemplate, pod_templates
from kubeshare_py.terminal.pod_table import checked_lines
from tests.dialects.halves import DIALECTS, HALF
from tests.fuzz import odd
from tests.fuzz.family import Family, loaded, said, text_at
from tests.valid_objects import BUDGET, GROUPS, LEASE, LOOSE, NODE, OBJECTS, POD

PODS, NODES = Codec(PodFields), Codec(NodeFields)
PODGROUPS, BUDGETS = Codec(PodGroupFields), Codec(BudgetFields)
#: Names of fields, labels and annotations that may turn up anywhere.
KEYS = (
    *(*LABELS, *ASKING_ANNOTATIONS, *RESULT_ANNOTATIONS, "sharedgpu/gpu_limits", "nvidia.com/gpu"),
    *("metadata", "spec", "status", "nodeName", "deletionTimestamp", "schedulingGates", "uid"),
    *("matchFields", "topologySpreadConstraints", "podAntiAffinity", "schedulingGroup", "name"),
    *("volumes", "resourceClaims", "podGroupName", "managedFields", "cpu", "phase", "minMember"),
    *("nominatedNodeName", "allocatedResources", "containerStatuses", "conditions", "resources"),
)
#: Containers that ask in another dialect.
_HALVES = {"containers": [{"name": "a", "resources": {"limits": {HALF: "1"}}}]}
_BOUND = {**POD, "spec": {**POD["spec"], "nodeName": "n1"}}
POD_TEXTS = [json.dumps(pod) for pod in (POD, LOOSE, _BOUND)]
_BREAKS = 0.1
_OF_DIALECTS, _OWNED = events.pod_events(DIALECTS), events.node_events(DIALECTS)
_TEMPLATE = {"metadata": POD["metadata"], "spec": {**POD["spec"], **_HALVES}}
MANIFESTS = [
    json.dumps({"kind": "Pod", **POD}),
    json.dumps({"kind": "Job", "metadata": {"name": "j"}, "spec": {"template": _TEMPLATE}}),
    json.dumps({"kind": "List", "items": [{"kind": "Pod", **LOOSE}]}),
]


def odd_object(rng: Random, examples: list[str], most: int = 4) -> bytes:
    """An example with something odd, seldom no JSON any more."""
    made = odd.changed(rng, json.loads(rng.choice(examples)), KEYS, most)
    written = odd.as_bytes(made)
    return odd.broken(rng, written) if rng.random() < _BREAKS else written


def judged_object(codec: Codec[Any], event: Callable[[Any], Any], good: bytes) -> Any:
    """The judge of one kind: alone in a line, and between good ones in a list."""

    def judge(written: bytes) -> None:
        is_json, value = loaded(written)
        line = codec.line(b'{"type":"ADDED","object":%s}' % written)
        again = codec.line(b'{"type":"ADDED","object":%s}' % written)
        assert (line.type, line.problem) == (again.type, again.problem)
        if is_json:
            assert line.type == "ADDED"
            assert codec.version(line) in ("", text_at(value, "metadata", "resourceVersion"))
        if line.problem is not None:
            _names_it(line.problem, is_json, value)
        if line.item is not None:
            assert event(line.item) == event(again.item), "the same is read in two ways"
        try:
            page = codec.page(b'{"items":[%s,%s,%s],"metadata":{}}' % (good, written, good))
        except UnreadableAnswer as error:
            assert not is_json, "one object spoils a list"
            said(str(error))
            return
        if is_json:
            assert len(page.items) + len(page.problems) == 3
            assert len(page.items) >= 2, "a good object is missing"
            assert (len(page.items) == 3) == (line.item is not None)
        for problem in page.problems:
            _names_it(problem, is_json, value)

    return judge


def pod_event(fields: PodFields) -> object:
    """What the scheduler makes of a pod, which must be within its bounds."""
    event = events.POD_EVENTS.event("ADDED", fields)
    for one in (event, _OF_DIALECTS.event("ADDED", fields)):
        if isinstance(one, PodSeen):
            sound_pod(one.pod)
    return event


def sound_pod(pod: Pod) -> None:
    """Amounts within bounds, sentences that name a field and are not endless."""
    assert INT32.allows(pod.priority)
    assert -1 <= pod.label_priority <= 100
    for _, amount in pod.shape.resources:
        assert 0 <= amount <= MAX * 2048
    if pod.problem is not None:
        said(str(pod.problem), pod.problem.field[:60])
    if pod.mismatch:
        said(pod.mismatch, "sharedgpu/")
    if pod.allocation_problem:
        said(pod.allocation_problem, "sharedgpu/allocation: ")
    if pod.unsupported:
        said(listed(pod.unsupported))
    for field in pod.unsupported:
        assert field.startswith(("spec.", "resources[")), field
    assert pod.allocation is None or pod.node_name is not None


def node_event(fields: NodeFields) -> object:
    """A node's amounts are within bounds."""
    event = events.NODE_EVENTS.event("ADDED", fields)
    for one in (event, _OWNED.event("ADDED", fields)):
        assert isinstance(one, NodeSeen)
        assert all(0 <= amount <= MAX for _, amount in one.node.allocatable)
    return event


def group_event(fields: PodGroupFields) -> object:
    """Of either API."""
    found = [events.pod_group_events(api).event("ADDED", fields) for api in GroupApi]
    for one in found:
        assert isinstance(one, PodGroupSeen)
        assert 1 <= one.group.min_member <= 1_000_000
        if one.group.unsupported:
            said(listed(one.group.unsupported))
        for field in one.group.unsupported:
            assert field.startswith(("spec.", "metadata.")), field
    return found


def budget_event(fields: BudgetFields) -> object:
    """A disruption budget."""
    event = events.BUDGET_EVENTS.event("ADDED", fields)
    assert isinstance(event, BudgetSeen)
    assert INT32.allows(event.budget.allowed)
    return event


SCHEDULERS = KnownSchedulers(
    names=("kubeshare-scheduler",), dialects=DIALECTS, installed=DIALECTS, are_configured=True
)


def judge_manifest(written: bytes) -> None:
    """Each pod of a manifest is checked, whatever it is; a file that is none says why."""
    try:
        documents = read_yaml_documents(written, "f.yaml")
        found = [list(pod_templates(one)) for one in documents]
    except (YamlProblem, ValueError) as problem:
        said(str(problem))
        return
    for template in itertools.chain(*found):
        if isinstance(template, NoTemplate):
            said(template.owner)
            continue
        checked = check(template, SCHEDULERS)
        assert checked == check(template, SCHEDULERS)
        for sentence in (*checked.refused, *checked.notes):
            said(sentence)
        said("\n".join(map(str, checked_lines([checked]))) if not checked.refused else "refused")


def judge_lease(written: bytes) -> None:
    """A Lease is read from what the client decoded."""
    is_json, value = loaded(written)
    if not is_json or not isinstance(value, dict):
        return
    try:
        lease = read_lease(value)
    except msgspec.ValidationError as error:
        said(str(error), "`")
        return
    assert INT32.allows(lease.duration_s)
    assert INT32.allows(lease.transitions)
    assert lease == read_lease(value)


def _names_it(problem: Problem, is_json: bool, value: Any) -> None:
    said(problem.text)
    if not is_json:
        return
    assert "`$" in problem.text or not isinstance(value, dict), problem.text
    for name in ("namespace", "name", "uid"):
        assert getattr(problem, name) == text_at(value, "metadata", name)


def _kind(name: str, codec: Codec[Any], event: Any, *examples: Any, share: float) -> Family:
    texts = [json.dumps(one) for one in examples]
    return Family(
        name=name,
        make=lambda rng: odd_object(rng, texts),
        judge=judged_object(codec, event, texts[0].encode()),
        share=share,
    )


def object_event(watched: WatchedObjects) -> Callable[[Any], object]:
    """An object that placement depends on: its identity is the one that a deletion names."""

    def event(fields: Any) -> object:
        seen = watched.translation().event("ADDED", fields)
        gone = watched.translation().event("DELETED", fields)
        assert isinstance(seen, ObjectSeen)
        assert isinstance(gone, ObjectGone)
        assert (seen.object.kind, seen.object.key) == (gone.kind, gone.key)
        return seen

    return event


FAMILIES = (
    *(
        _kind(
            watched.kind,
            Codec(watched.fields),
            object_event(watched),
            OBJECTS[watched.kind],
            share=1,
        )
        for watched in WATCHED
    ),
    _kind("pods", PODS, pod_event, POD, LOOSE, _BOUND, share=14),
    _kind("nodes", NODES, node_event, NODE, share=5),
    _kind("podgroups", PODGROUPS, group_event, *GROUPS.values(), share=4),
    _kind("budgets", BUDGETS, budget_event, BUDGET, share=3),
    Family(
        name="manifests",
        make=lambda rng: odd_object(rng, MANIFESTS),
        judge=judge_manifest,
        share=3,
    ),
    Family(
        name="leases",
        make=lambda rng: odd_object(rng, [json.dumps(LEASE)]),
        judge=judge_lease,
        share=2,
    ),
)
