"""Pods near some pods and far from others, judged pod by pod."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeshare_plugins.kubernetes.inter_pod_affinity import InterPodAffinity
from kubeshare_py.domain.cluster_objects import Requirement
from kubeshare_py.domain.pod import PodSelector, WeightedTerm
from kubeshare_py.plugin import ArgumentError
from tests.making import a_shape
from tests.plugins.kubernetes.inter_pod_crowd import (
    HOSTNAME,
    ZONE,
    Crowd,
    a_pod,
    any_pods,
    models,
    nodes,
    pods,
    shape_of,
    term,
)
from tests.plugins.kubernetes.inter_pod_model import (
    FAR,
    NEAR,
    OTHERS_FAR,
    Model,
    ModelPod,
    normalised,
)


def crowd(*placed: tuple[str, ModelPod]) -> Crowd:
    """Two nodes in the east, one in the west and one without a zone, with these pods."""
    model = nodes(e1="east", e2="east", w="west", bare=None)
    model.placed.extend(placed)
    return Crowd(model, InterPodAffinity())


def fits(crowd: Crowd, pod: ModelPod) -> set[str]:
    return {name for name, reason in crowd.reasons(shape_of(pod)).items() if reason is None}


def test_affinity_wants_a_pod_in_the_same_domain() -> None:
    with_web = crowd(("e1", a_pod("web")))
    pod = a_pod("db", affinity=(term(),))
    assert with_web.reasons(shape_of(pod)) == {"e1": None, "e2": None, "w": NEAR, "bare": NEAR}
    host = a_pod("db", affinity=(term(HOSTNAME),))
    assert fits(with_web, host) == {"e1"}


def test_one_pod_must_match_all_terms() -> None:
    both = (term(ZONE, pods("web")), term(ZONE, PodSelector(("a",), (Requirement("x", "Exists"),))))
    assert fits(crowd(("e1", a_pod("web"))), a_pod("db", affinity=both)) == set()
    matching = ModelPod("a", {"app": "web", "x": "1"})
    assert fits(crowd(("e1", matching)), a_pod("db", affinity=both)) == {"e1", "e2"}


def test_the_first_pod_of_a_series_fits_where_the_labels_are_set() -> None:
    first = a_pod("web", affinity=(term(),))
    assert fits(crowd(), first) == {"e1", "e2", "w"}
    # Any pod that matches all terms ends that, also one of another series.
    assert fits(crowd(("w", a_pod("web"))), first) == {"w"}
    # One without a domain does not.
    assert fits(crowd(("bare", a_pod("web"))), first) == {"e1", "e2", "w"}
    # A pod that does not match its own terms is not the first one.
    assert fits(crowd(), a_pod("db", affinity=(term(),))) == set()
    assert fits(crowd(), a_pod("web", "b", affinity=(term(),))) == set()


def test_anti_affinity_keeps_out_of_the_domain_of_any_term() -> None:
    placed = crowd(("e1", a_pod("web")), ("w", a_pod("db")))
    pod = a_pod("x", anti_affinity=(term(ZONE), term(HOSTNAME, pods("db"))))
    assert placed.reasons(shape_of(pod)) == {"e1": FAR, "e2": FAR, "w": FAR, "bare": None}


def test_anti_affinity_of_placed_pods_counts_too() -> None:
    placed = crowd(("e1", a_pod("db", anti_affinity=(term(),))))
    assert placed.reasons(shape_of(a_pod("web"))) == {
        "e1": OTHERS_FAR,
        "e2": OTHERS_FAR,
        "w": None,
        "bare": None,
    }
    assert fits(placed, a_pod("db")) == {"e1", "e2", "w", "bare"}
    assert fits(placed, a_pod("web", "b")) == {"e1", "e2", "w", "bare"}


def test_the_first_reason_is_named() -> None:
    placed = crowd(("e1", a_pod("web", anti_affinity=(term(HOSTNAME),))))
    pod = a_pod("web", affinity=(term(ZONE),), anti_affinity=(term(ZONE),))
    assert placed.reasons(shape_of(pod)) == {"e1": FAR, "e2": FAR, "w": NEAR, "bare": NEAR}


def test_a_pod_that_terminates_still_counts() -> None:
    placed = crowd(("e1", a_pod("web", terminating=True)))
    assert fits(placed, a_pod("db", affinity=(term(),))) == {"e1", "e2"}


def test_only_missing_affinity_cannot_be_resolved_by_evictions() -> None:
    placed = crowd(("e1", a_pod("web", anti_affinity=(term(),))))
    evaluator = placed.cluster.evaluator
    shape = shape_of(a_pod("web", anti_affinity=(term(HOSTNAME),)))
    assert evaluator.evictable_rows(shape).tolist() == [placed.row("e1"), placed.row("e2")]
    near = shape_of(a_pod("db", affinity=(term(ZONE, pods("db")), term(ZONE))))
    assert evaluator.evictable_rows(near).tolist() == []


def test_namespaces_by_their_labels() -> None:
    placed = crowd(("e1", a_pod("web", "a")), ("w", a_pod("web", "b")))
    web = (Requirement("app", "In", ("web",)),)
    of_team_y = PodSelector((), web, (Requirement("team", "In", ("y",)),))
    assert fits(placed, a_pod("db", affinity=(term(ZONE, of_team_y),))) == {"w"}
    anywhere = PodSelector((), web, ())
    assert fits(placed, a_pod("db", affinity=(term(ZONE, anywhere),))) == {"e1", "e2", "w"}


def test_a_pod_without_terms_is_not_asked_about() -> None:
    plugin = InterPodAffinity()
    assert plugin.score(a_shape()) is None
    assert Crowd(nodes(n="z"), plugin).reasons(a_shape()) == {"n": None}


def test_preferences_of_both_sides_score() -> None:
    model = nodes(e1="east", e2="east", w="west", bare=None)
    model.placed += [
        ("e1", a_pod("web")),
        ("w", a_pod("db", preferred=(WeightedTerm(term(), 10),))),
        ("w", a_pod("db", affinity=(term(),))),
    ]
    pod = a_pod("web", preferred=(WeightedTerm(term(), 50),))
    fitting = model.nodes
    # East 50 for its web pod, west 10 + 1 by the others' wishes, and nothing without a zone.
    found = Crowd(model).scores(InterPodAffinity(), shape_of(pod), fitting)
    assert found == {"e1": 100, "e2": 100, "w": 22, "bare": 0}
    heavy = InterPodAffinity(hardPodAffinityWeight=100)
    found = Crowd(model).scores(heavy, shape_of(pod), fitting)
    assert found == {"e1": 45, "e2": 45, "w": 100, "bare": 0}


def test_preferences_of_placed_pods_can_be_ignored() -> None:
    model = nodes(e="east", w="west")
    model.placed.append(("w", a_pod("db", preferred=(WeightedTerm(term(), 10),))))
    plugin = InterPodAffinity(ignorePreferredTermsOfExistingPods=True)
    assert plugin.score(shape_of(a_pod("web"))) is None
    own = a_pod("web", preferred=(WeightedTerm(term(HOSTNAME), 1),))
    assert Crowd(model).scores(plugin, shape_of(own), model.nodes) == {"e": 0, "w": 100}


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ({"hardPodAffinityWeight": 101}, "hardPodAffinityWeight"),
        ({"hardPodAffinityWeight": -1}, "hardPodAffinityWeight"),
        ({"hardPodAffinityWeight": "1"}, "hardPodAffinityWeight"),
        ({"ignorePreferredTermsOfExistingPods": 1}, "ignorePreferredTermsOfExistingPods"),
    ],
)
def test_a_bad_argument_is_named(args: dict[str, object], said: str) -> None:
    with pytest.raises(ArgumentError, match=said):
        InterPodAffinity(**args)


@pytest.mark.slow
@given(model=models(), pod=any_pods())
def test_reasons_are_those_of_the_definition(model: Model, pod: ModelPod) -> None:
    found = Crowd(model, InterPodAffinity()).reasons(shape_of(pod))
    assert found == {node.name: model.refusal(pod, node) for node in model.nodes}


@pytest.mark.slow
@given(model=models(), pod=any_pods(), hard_weight=st.sampled_from([0, 1, 40]))
def test_scores_are_those_of_the_definition(model: Model, pod: ModelPod, hard_weight: int) -> None:
    plugin = InterPodAffinity(hardPodAffinityWeight=hard_weight)
    fitting = [node for node in model.nodes if model.refusal(pod, node) is None]
    points = {node.name: model.affinity_points(pod, node, hard_weight) for node in fitting}
    assert Crowd(model).scores(plugin, shape_of(pod), fitting) == normalised(points)


@pytest.mark.slow
@given(model=models(), pod=any_pods(), data=st.data())
def test_what_is_tried_counts_in_what_if_questions(
    model: Model, pod: ModelPod, data: st.DataObject
) -> None:
    crowd = Crowd(model, InterPodAffinity())
    names = st.sampled_from([node.name for node in model.nodes])
    more = data.draw(st.lists(st.tuples(names, any_pods()), max_size=3))
    gone = data.draw(st.lists(st.sampled_from(model.placed), unique_by=id)) if model.placed else []
    crowd.reasons(shape_of(pod))
    moved = [(*one, 1) for one in more] + [(*one, -1) for one in gone]
    evaluator, overlay = crowd.tried(moved)
    then = Model(model.nodes, [*more, *model.placed], model.namespaces)
    for one in gone:
        then.placed.remove(one)
    assert crowd.reasons(shape_of(pod), evaluator) == {
        node.name: then.refusal(pod, node) for node in model.nodes
    }
    overlay.follow()
    assert crowd.reasons(shape_of(pod), evaluator) == crowd.reasons(shape_of(pod))
