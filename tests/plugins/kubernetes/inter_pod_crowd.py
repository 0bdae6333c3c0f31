"""Clusters full of pods that ask something about each other: as a model, and as tables."""

from typing import Any

import numpy as np
from hypothesis import strategies as st

from kubeshare_py.cluster.charge import Charge
from kubeshare_py.cluster.columns import IntArray
from kubeshare_py.cluster.overlay import Overlay
from kubeshare_py.cluster.rows import SomeRows
from kubeshare_py.domain.cluster_objects import NamespaceObject, Requirement
from kubeshare_py.domain.identity import NodeName, PodUid
from kubeshare_py.domain.node import Taint
from kubeshare_py.domain.pod import (
    AffinityTerm,
    InterPodTerms,
    PlacedPod,
    PodSelector,
    Shape,
    SpreadConstraint,
    WeightedTerm,
)
from kubeshare_py.framework.evaluator import Evaluator
from kubeshare_py.framework.points import Score
from kubeshare_py.testing import SmallCluster
from tests.making import a_shape
from tests.plugins.kubernetes.inter_pod_model import Model, ModelNode, ModelPod

HOSTNAME, ZONE, RACK = "kubernetes.io/hostname", "zone", "rack"
NAMESPACES = {"a": {"team": "x"}, "b": {"team": "y"}, "c": {}}
#: The label of nodes that a picky pod selects, and the taint of those that no pod tolerates.
ALLOWED, REPELLENT = "allowed", Taint("repellent", "yes")

# --- by hand -----------------------------------------------------------------------------------


def pods(app: str = "web", *namespaces: str) -> PodSelector:
    """The pods of an app, in namespace a unless said otherwise."""
    return PodSelector(namespaces or ("a",), (Requirement("app", "In", (app,)),))


def term(key: str = ZONE, selector: PodSelector | None = None) -> AffinityTerm:
    return AffinityTerm(selector or pods(), key)


def even(
    key: str = ZONE, max_skew: int = 1, *, hard: bool = True, **fields: Any
) -> SpreadConstraint:
    given: dict[str, Any] = {"selector": pods(), **fields}
    return SpreadConstraint(max_skew=max_skew, topology_key=key, hard=hard, **given)


def a_pod(
    app: str = "web", namespace: str = "a", *, terminating: bool = False, **asked: Any
) -> ModelPod:
    labels = (("app", app),)
    terms = InterPodTerms(namespace=namespace, labels=labels, **asked) if asked else None
    return ModelPod(namespace, dict(labels), terms, terminating)


def nodes(**zones: str | None) -> Model:
    """Nodes by name in these zones, None for none."""
    return Model(
        [
            ModelNode(name, {HOSTNAME: name} | ({ZONE: zone} if zone is not None else {}))
            for name, zone in zones.items()
        ],
        namespaces=NAMESPACES,
    )


# --- as tables ---------------------------------------------------------------------------------


class Crowd:
    """The model's nodes and pods in a ledger, and plugins that are asked about them.

    There is one more node, like the model's first and with all of its pods, that is gone.
    """

    def __init__(self, model: Model, *plugins: object) -> None:
        self.model = model
        self.cluster = SmallCluster(*plugins)
        self.ledger = self.cluster.ledger
        for name, labels in model.namespaces.items():
            seen = NamespaceObject(name=name, labels=tuple(sorted(labels.items())))
            self.ledger.columns.objects.put(seen)
        for node in model.nodes:
            allowed = {ALLOWED: "yes"} if node.is_allowed else {}
            taints = () if node.is_tolerated else (REPELLENT,)
            self.cluster.node(node.name, labels={**node.labels, **allowed}, taints=taints)
        self.cluster.node("gone", labels={**model.nodes[0].labels, ALLOWED: "yes"})
        for number, (name, pod) in enumerate(model.placed):
            self.ledger.charge(PodUid(f"p{number}"), NodeName(name), (), None, placed(pod))
            self.ledger.charge(PodUid(f"g{number}"), NodeName("gone"), (), None, placed(pod))
        for key in (HOSTNAME, ZONE, RACK):
            self.ledger.columns.label(key)
        self.ledger.drop_node(NodeName("gone"))

    def row(self, name: str) -> int:
        return self.ledger.columns.row_of[NodeName(name)]

    def reasons(self, shape: Shape, evaluator: Evaluator | None = None) -> dict[str, str | None]:
        """The reason of each node, None where the shape fits."""
        asked = evaluator or self.cluster.evaluator
        masks = asked.masks(shape)
        found: dict[str, str | None] = {}
        for node in self.model.nodes:
            reasons = asked.reasons_in(shape, masks.item(self.row(node.name)))
            assert len(reasons) <= 1
            found[node.name] = reasons[0].text if reasons else None
        return found

    def scores(self, plugin: Score, shape: Shape, fitting: list[ModelNode]) -> dict[str, int]:
        """The plugin's normalised points of the nodes that fit."""
        question = plugin.score(shape)
        if question is None:
            return {node.name: 0 for node in fitting}
        index = np.array([self.row(node.name) for node in fitting], np.int64)
        points: IntArray = question(SomeRows(self.ledger.columns, index), None)
        if plugin.normaliser is not None:
            points = plugin.normaliser(points)
        return dict(zip((node.name for node in fitting), points.tolist(), strict=True))

    def tried(self, moved: list[tuple[str, ModelPod, int]]) -> tuple[Evaluator, Overlay]:
        """An evaluator of what would be with these pods placed (1) or gone (-1)."""
        overlay = Overlay(self.ledger)
        below = self.cluster.evaluator
        evaluator = Evaluator(below.profile, self.ledger, overlay=overlay, below=below)
        for name, pod, sign in moved:
            charge = Charge(NodeName(name), (), None, placed(pod))
            if sign > 0:
                overlay.place(self.row(name), charge, ())
            else:
                overlay.remove(self.row(name), charge)
        return evaluator, overlay


def placed(pod: ModelPod) -> PlacedPod:
    return PlacedPod(
        namespace=pod.namespace,
        labels=tuple(sorted(pod.labels.items())),
        terms=pod.terms,
        terminating=pod.terminating,
    )


def shape_of(pod: ModelPod, *, picky: bool = False) -> Shape:
    """The pod's shape; a `picky` one selects nodes."""
    labels = tuple(sorted(pod.labels.items()))
    terms = pod.terms or InterPodTerms(namespace=pod.namespace, labels=labels)
    selector = ((ALLOWED, "yes"),) if picky else ()
    return a_shape(inter_pod=terms, node_selector=selector)


# --- at random ---------------------------------------------------------------------------------

_KEYS = st.sampled_from([HOSTNAME, ZONE, RACK, "nowhere"])
_LABELS = st.fixed_dictionaries(
    {"app": st.sampled_from(["web", "db"])}, optional={"tier": st.sampled_from(["1", "2"])}
)
_LINES = st.sampled_from(
    [
        *(Requirement("app", "In", values) for values in (("web",), ("db",), ("web", "db"))),
        Requirement("tier", "NotIn", ("1",)),
        Requirement("tier", "Exists"),
        Requirement("tier", "DoesNotExist"),
    ]
)
_SELECTED = st.none() | st.lists(_LINES, max_size=2, unique=True).map(tuple)
_NAMES = st.lists(st.sampled_from("abc"), max_size=2, unique=True).map(sorted).map(tuple)
_OF_NAMESPACES = st.sampled_from(
    [
        None,
        None,
        (),
        (Requirement("team", "In", ("x",)),),
        (Requirement("team", "DoesNotExist"),),
    ]
)
_SELECTORS = st.builds(PodSelector, _NAMES, _SELECTED, _OF_NAMESPACES)
_TERMS = st.builds(AffinityTerm, _SELECTORS, _KEYS)
_SOME_TERMS = st.lists(_TERMS, max_size=2).map(tuple)
_WEIGHTS = st.integers(1, 100) | st.integers(-100, -1)


@st.composite
def constraints(draw: st.DrawFn, namespace: str) -> SpreadConstraint:
    hard = draw(st.booleans())
    return SpreadConstraint(
        max_skew=draw(st.integers(1, 3)),
        topology_key=draw(_KEYS.filter(lambda key: key != "nowhere") | _KEYS),
        selector=PodSelector((namespace,), draw(_SELECTED)),
        hard=hard,
        min_domains=draw(st.integers(1, 3)) if hard else 1,
        honours_affinity=draw(st.booleans()),
        honours_taints=draw(st.booleans()),
    )


@st.composite
def any_pods(draw: st.DrawFn) -> ModelPod:
    namespace, labels = draw(st.sampled_from("abc")), draw(_LABELS)
    terms = InterPodTerms(
        namespace=namespace,
        labels=tuple(sorted(labels.items())),
        affinity=draw(_SOME_TERMS),
        anti_affinity=draw(_SOME_TERMS),
        preferred=tuple(draw(st.lists(st.builds(WeightedTerm, _TERMS, _WEIGHTS), max_size=2))),
        spread=tuple(draw(st.lists(constraints(namespace), max_size=2))),
    )
    has_terms = draw(st.booleans())
    return ModelPod(namespace, labels, terms if has_terms else None, draw(st.booleans()))


@st.composite
def models(draw: st.DrawFn) -> Model:
    found = []
    for number in range(draw(st.integers(1, 6))):
        labels = {HOSTNAME: f"n{number}"} if draw(st.integers(0, 9)) else {}
        zone = draw(st.sampled_from(["1", "1", "2", "3", "", None]))
        rack = draw(st.sampled_from(["1", "2", None]))
        labels |= {} if zone is None else {ZONE: zone}
        labels |= {} if rack is None else {RACK: rack}
        allowed, tolerated = draw(st.booleans()), draw(st.booleans())
        found.append(ModelNode(f"n{number}", labels, allowed, tolerated))
    names = st.sampled_from([node.name for node in found])
    there = draw(st.lists(st.tuples(names, any_pods()), max_size=8))
    return Model(found, there, NAMESPACES)
