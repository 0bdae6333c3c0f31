"""This scheduler's answer to a case: its objects go through the decoders into a machine."""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from kubeshare_plugins import IN_TREE
from kubeshare_py.cluster.columns import IntArray
from kubeshare_py.cluster.rows import SomeRows
from kubeshare_py.configuration.kube_scheduler import read_kube_scheduler
from kubeshare_py.configuration.scheduler import SCHEDULER_NAME
from kubeshare_py.domain.effects import Effect, Preempt, ReportWaiting
from kubeshare_py.domain.events import BindSlotsFree, Event, InventoryRead
from kubeshare_py.domain.identity import PodUid
from kubeshare_py.domain.pod import Shape
from kubeshare_py.framework.evaluator import Evaluator
from kubeshare_py.framework.profile_making import profiles
from kubeshare_py.manifests.events import (
    BUDGET_EVENTS,
    NODE_EVENTS,
    POD_EVENTS,
    WATCHED,
    BudgetFields,
    Translation,
)
from kubeshare_py.manifests.node import NodeFields
from kubeshare_py.manifests.pods.pod_fields import PodFields
from kubeshare_py.manifests.watch import ADDED, Changes, Codec, ListResult
from kubeshare_py.scheduling.machine import Machine
from tests.differential.answers import Candidate, CaseAnswer, Refusals
from tests.differential.kube_scheduler import CONFIGURATION

Json = dict[str, Any]

#: kube-scheduler's filters and scores.
FILTERS = frozenset(
    {
        *("NodeUnschedulable", "NodeName", "TaintToleration", "NodeAffinity", "NodePorts"),
        *("NodeResourcesFit", "VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding"),
        *("VolumeZone", "PodTopologySpread", "InterPodAffinity", "DynamicResources"),
        "NodeDeclaredFeatures",
    }
)
SCORES = frozenset(
    {
        *("TaintToleration", "NodeAffinity", "NodeResourcesFit", "PodTopologySpread"),
        *("InterPodAffinity", "NodeResourcesBalancedAllocation", "ImageLocality"),
        *("DynamicResources", "VolumeBinding"),
    }
)
#: Of a list: when it was asked for (s).
_ASKED_AT = 0.0
_NOW = 1.0

_RESOURCES: Mapping[str, tuple[Codec[Any], Translation[Any, Any]]] = {
    "nodes": (Codec(NodeFields), NODE_EVENTS),
    "pods": (Codec(PodFields), POD_EVENTS),
    "poddisruptionbudgets": (Codec(BudgetFields), BUDGET_EVENTS),
    **{one.kind.value: (Codec(one.fields), one.translation()) for one in WATCHED},
}


def machine_for(case: Json) -> Machine:
    """A machine by the configuration that kube-scheduler has for the case."""
    profile = {"schedulerName": SCHEDULER_NAME, "pluginConfig": case.get("pluginConfig", [])}
    document = {**CONFIGURATION, "profiles": [profile]}
    # Of plugins that do not exist here yet it warns.
    read = read_kube_scheduler(document, IN_TREE, lambda warning: None)
    return Machine(profiles(read, IN_TREE), "test")


def asked_plugins(machine: Machine) -> tuple[list[str], dict[str, int]]:
    """kube-scheduler's filters and scores that there are here, these with their weights."""
    (profile,) = machine.profiles.values()
    filters = [plugin.name for plugin in profile.filters if plugin.name in FILTERS]
    return filters, {
        plugin.name: weight for plugin, weight in profile.scores if plugin.name in SCORES
    }


def answer(case: Json) -> CaseAnswer:
    """What this scheduler says of one case."""
    machine = machine_for(case)
    filters, weights = asked_plugins(machine)
    for event in (*listed_events(case["objects"]), *watch_events(ADDED, case["pod"])):
        machine.handle(event, _NOW)
    record = machine.records[PodUid(case["pod"]["metadata"]["uid"])]
    nodes = frozenset(machine.node_names())
    if record.pod.unsupported or record.pod.problem:
        problem = str(record.pod.problem or "")
        return CaseAnswer(nodes=nodes, unsupported=(*record.pod.unsupported, problem))
    evaluator = machine.evaluators[SCHEDULER_NAME]
    refusals, feasible = _refusals(evaluator, record.shape, filters)
    scores = _scores(evaluator, record.shape) if feasible else {}
    effects = machine.handle(BindSlotsFree(1), _NOW)
    return CaseAnswer(
        nodes=nodes,
        filters=refusals,
        feasible=feasible,
        scores=scores,
        weights=weights,
        chosen=frozenset({record.node} if record.node else ()),
        preempted=tuple(_candidates(effects)),
        message="".join(one.diagnosis.message for one in effects if isinstance(one, ReportWaiting)),
    )


def listed_events(objects: Iterable[Json]) -> Iterator[Event]:
    """The lists with which a scheduler begins, then an inventory without GPUs."""
    given: dict[str, list[Json]] = {}
    for one in objects:
        given.setdefault(_plural(one["kind"]), []).append(one)
    for name, (codec, translation) in _RESOURCES.items():
        body = {"items": given.get(name, []), "metadata": {}}
        page = codec.page(json.dumps(body).encode())
        assert not page.problems, page.problems
        listed = ListResult(
            items=[translation.reduce(one) for one in page.items], problems=[], asked_at=_ASKED_AT
        )
        yield from _all_events(translation.events(listed))
    yield InventoryRead(())


def watch_events(change: str, changed: Json) -> Iterator[Event]:
    """What a watch says of one object: it is ADDED, MODIFIED or DELETED."""
    codec, translation = _RESOURCES[_plural(changed["kind"])]
    line = codec.line(
        b'{"type":"%s","object":%s}' % (change.encode(), json.dumps(changed).encode())
    )
    yield from _all_events(translation.events(Changes(changed=[line])))


def _all_events(found: Iterable[object]) -> Iterator[Event]:
    for event in found:
        assert isinstance(event, Event), event
        yield event


def _plural(kind: str) -> str:
    """The name of a kind's resource."""
    name = kind.lower()
    if name.endswith("y"):
        return f"{name[:-1]}ies"
    return f"{name}es" if name.endswith("s") else f"{name}s"


def _refusals(
    evaluator: Evaluator, shape: Shape, filters: list[str]
) -> tuple[dict[str, Refusals], frozenset[str]]:
    """What each filter says of each node; the nodes to which none objects."""
    masks = evaluator.masks(shape)
    found: dict[str, Refusals] = {name: {} for name in filters}
    feasible = set()
    for node, row in evaluator.tables.columns.row_of.items():
        mask = int(masks[row])
        if not mask:
            feasible.add(node)
        for reason in evaluator.reasons_in(shape, mask):
            refusals = found.setdefault(reason.plugin, {})
            texts, resolvable = refusals.get(node, ((), True))
            texts = tuple(sorted((*texts, reason.text)))
            refusals[node] = texts, resolvable and reason.resolvable
    return found, frozenset(feasible)


def _scores(evaluator: Evaluator, shape: Shape) -> dict[str, dict[str, int]]:
    """The points of the nodes that fit, by plugin."""
    answers = evaluator.results.refreshed(shape)
    columns = evaluator.tables.columns
    fitting = np.flatnonzero(answers.row_scores >= 0)
    rows = SomeRows(columns, fitting)
    asked = answers.questions
    points: dict[str, IntArray] = {
        name: score(rows, None)
        for name, (score, _, _) in zip(asked.scorers, asked.absolute, strict=True)
    }
    normalised = zip(asked.normalised, answers.raw, strict=True)
    of_nodes = zip(asked.static_scores, answers.static_raw, strict=True)
    for one, raw in (*normalised, *of_nodes):
        points[one.name] = one.normaliser(raw[fitting])
    for one in asked.cluster_scores:
        points[one.name] = one.normaliser(one.score(rows, None))
    names = {row: name for name, row in columns.row_of.items()}
    return {
        plugin: {
            names[row]: int(number)
            for row, number in zip(fitting.tolist(), numbers.tolist(), strict=True)
        }
        for plugin, numbers in points.items()
    }


def _candidates(effects: list[Effect]) -> Iterator[Candidate]:
    for one in effects:
        if isinstance(one, Preempt):
            (place,) = one.plan.nominations
            victims = tuple(f"{who.key.namespace}/{who.key.name}" for who in one.plan.victims)
            yield Candidate(node=place.node, victims=victims)
