"""Pod affinity, anti-affinity and topology spread constraints as they are read from pods."""

from collections.abc import Callable
from typing import Any

import pytest

from kubeshare_py.domain.cluster_objects import Requirement
from kubeshare_py.domain.pod import (
    AffinityTerm,
    InterPodTerms,
    PodSelector,
    SpreadConstraint,
    WeightedTerm,
)
from kubeshare_py.manifests.pods.inter_pod import (
    MAX_CHARACTERS,
    MAX_CONSTRAINTS,
    MAX_REQUIREMENTS,
    MAX_TERMS,
    MAX_VALUES,
    asked_of_others,
)
from tests.manifests.pods.inter_pod_specs import (
    PREFERRED,
    REQUIRED,
    asked,
    even,
    far,
    line,
    near,
    preferred,
    spread,
    term,
)
from tests.manifests.written import pod_fields

APP_IS_WEB = Requirement("app", "In", ("web",))
OF_WEB = PodSelector(("ns",), (APP_IS_WEB,))


def selector(spec: dict[str, Any], **labels: str) -> PodSelector:
    (only,) = asked(spec, **labels).affinity
    return only.selector


def test_each_list_of_terms_is_read() -> None:
    affinity = {
        "podAffinity": {
            REQUIRED: [term("zone")],
            PREFERRED: [{"weight": 7, "podAffinityTerm": term("rack")}],
        },
        "podAntiAffinity": {
            REQUIRED: [term("host")],
            PREFERRED: [{"weight": 9, "podAffinityTerm": term("row")}],
        },
    }
    assert asked({"affinity": affinity}) == InterPodTerms(
        namespace="ns",
        affinity=(AffinityTerm(OF_WEB, "zone"),),
        anti_affinity=(AffinityTerm(OF_WEB, "host"),),
        preferred=(
            WeightedTerm(AffinityTerm(OF_WEB, "rack"), 7),
            WeightedTerm(AffinityTerm(OF_WEB, "row"), -9),
        ),
    )


@pytest.mark.parametrize(
    "spec",
    [
        *({}, near(), far(), spread(), {"topologySpreadConstraints": None}),
        {"affinity": {"podAffinity": None, "podAntiAffinity": {}}},
        {"affinity": {"nodeAffinity": {}}},
    ],
)
def test_a_pod_without_terms_asks_nothing(spec: dict[str, Any]) -> None:
    found = asked_of_others(pod_fields(spec).spec, "ns", {"app": "web"})
    assert (found.terms, found.problem) == (None, None)


def test_no_selector_selects_no_pod_and_an_empty_one_every_pod() -> None:
    assert selector(near(term(labelSelector=None))).labels is None
    assert selector(near(term(labelSelector={}))).labels == ()


def test_without_namespaces_a_term_is_about_the_pods_own() -> None:
    assert selector(near(term())).namespaces == ("ns",)
    assert selector(near(term(namespaces=[]))).namespaces == ("ns",)
    assert selector(near(term(namespaces=["b", "a", "b"]))).namespaces == ("a", "b")


def test_a_namespace_selector_stands_in_for_the_pods_own_namespace() -> None:
    found = selector(near(term(namespaceSelector={"matchLabels": {"team": "x"}})))
    assert found.namespaces == ()
    assert found.namespace_selector == (Requirement("team", "In", ("x",)),)
    every = selector(near(term(namespaceSelector={}, namespaces=["a"])))
    assert (every.namespaces, every.namespace_selector) == (("a",), ())


def test_equal_selectors_are_equal_values_however_they_are_written() -> None:
    written = [
        {"matchLabels": {"b": "2", "a": "1"}},
        {"matchLabels": {"a": "1", "b": "2"}},
        {"matchExpressions": [line("b", "In", "2", "2"), line("a", "In", "1")]},
    ]
    assert len({selector(near(term(labelSelector=one))) for one in written}) == 1


def test_label_keys_of_an_affinity_term_are_added_where_the_api_server_did_not() -> None:
    keys: dict[str, Any] = {"matchLabelKeys": ["hash", "absent"], "mismatchLabelKeys": ["tenant"]}
    added = selector(near(term(**keys)), hash="h", tenant="t")
    assert added.labels == (
        APP_IS_WEB,
        Requirement("hash", "In", ("h",)),
        Requirement("tenant", "NotIn", ("t",)),
    )
    merged = {
        "matchLabels": {"app": "web"},
        "matchExpressions": [line("hash", "In", "h"), line("tenant", "NotIn", "t")],
    }
    by_server = near(term(labelSelector=merged, **keys))
    assert selector(by_server, hash="h", tenant="t") == added
    # A label that changed since the pod was created does not count, as for kube-scheduler.
    assert selector(by_server, hash="new", tenant="t") == added


def test_label_keys_do_not_make_a_term_without_a_selector_select_pods() -> None:
    assert selector(near(term(labelSelector=None, matchLabelKeys=["a"])), a="1").labels is None
    constraint = even(labelSelector=None, matchLabelKeys=["a"])
    assert asked(spread(constraint), a="1").spread[0].selector.labels is None


def test_label_keys_of_a_constraint_are_added_as_they_are_today() -> None:
    constraint = even(matchLabelKeys=["hash", "absent"])
    hashed = Requirement("hash", "In", ("h",))
    assert asked(spread(constraint), hash="h").spread[0].selector.labels == (APP_IS_WEB, hashed)
    merged = {"matchLabels": {"app": "web"}, "matchExpressions": [line("hash", "In", "h")]}
    again = even(matchLabelKeys=["hash"], labelSelector=merged)
    assert asked(spread(again), hash="h").spread[0].selector.labels == (APP_IS_WEB, hashed)
    changed = asked(spread(again), hash="new").spread[0].selector.labels
    assert changed == (APP_IS_WEB, hashed, Requirement("hash", "In", ("new",)))


def test_a_constraint_is_read_with_its_defaults() -> None:
    (found,) = asked(spread(even(maxSkew=3))).spread
    assert found == SpreadConstraint(max_skew=3, topology_key="zone", selector=OF_WEB, hard=True)
    assert (found.min_domains, found.honours_affinity, found.honours_taints) == (1, True, False)


def test_all_fields_of_a_constraint_are_read() -> None:
    constraint = even(
        whenUnsatisfiable="ScheduleAnyway",
        minDomains=4,
        nodeAffinityPolicy="Ignore",
        nodeTaintsPolicy="Honor",
    )
    (found,) = asked(spread(constraint)).spread
    assert (found.hard, found.min_domains) == (False, 4)
    assert (found.honours_affinity, found.honours_taints) == (False, True)


def test_only_labels_that_its_own_terms_look_at_come_with_the_pod() -> None:
    spec = {**near(term(mismatchLabelKeys=["tenant"])), **spread(even(matchLabelKeys=["hash"]))}
    labels = {"app": "db", "tenant": "t", "hash": "h", "index": "7"}
    assert asked(spec, **labels).labels == (("app", "db"), ("hash", "h"), ("tenant", "t"))


def test_pods_of_one_template_share_what_they_ask() -> None:
    first, second = (asked(near(term()), app="web", index=index) for index in "12")
    assert first is second


# --- What is wrong or too much in pod affinity and topology spread constraints is named -----------


def problem(spec: dict[str, Any]) -> str:
    found = asked_of_others(pod_fields(spec).spec, "ns", None)
    assert found.terms is None
    return str(found.problem)


def test_a_field_that_cannot_be_read_is_named() -> None:
    assert problem({"affinity": {"podAffinity": 7}}) == (
        "spec.affinity.podAffinity cannot be read: Expected `object`, got `int`"
    )
    assert problem(spread(even(maxSkew="1"))).startswith("spec.topologySpreadConstraints cannot")


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        (near(term("")), f"spec.affinity.podAffinity.{REQUIRED}[0].topologyKey is empty"),
        (
            far(term(), term(labelSelector={"matchExpressions": [line("a", "Near", "b")]})),
            f"spec.affinity.podAntiAffinity.{REQUIRED}[1].labelSelector.matchExpressions[0]."
            "operator is 'Near'; this scheduler knows In or NotIn or Exists or DoesNotExist",
        ),
        (
            near(term(namespaceSelector={"matchExpressions": [line("a", "In")]})),
            f"spec.affinity.podAffinity.{REQUIRED}[0].namespaceSelector.matchExpressions[0]."
            "values is empty; In needs values",
        ),
        (
            near(term(labelSelector={"matchExpressions": [line("a", "Exists", "b")]})),
            f"spec.affinity.podAffinity.{REQUIRED}[0].labelSelector.matchExpressions[0]."
            "values has values; Exists takes none",
        ),
        (preferred(0), "spec.affinity.podAffinity has a weight 0; it must be 1 to 100"),
        (
            preferred(101, "podAntiAffinity"),
            "spec.affinity.podAntiAffinity has a weight 101; it must be 1 to 100",
        ),
        (spread(even(maxSkew=0)), "spec.topologySpreadConstraints[0].maxSkew is no number from 1"),
        (
            spread(even(), even(minDomains=0)),
            "spec.topologySpreadConstraints[1].minDomains is no number from 1",
        ),
        (spread(even(topologyKey="")), "spec.topologySpreadConstraints[0].topologyKey is empty"),
        (
            spread(even(whenUnsatisfiable="Perhaps")),
            "spec.topologySpreadConstraints[0].whenUnsatisfiable is 'Perhaps'; "
            "this scheduler knows DoNotSchedule or ScheduleAnyway",
        ),
        (
            spread(even(nodeTaintsPolicy="Respect")),
            "spec.topologySpreadConstraints[0].nodeTaintsPolicy is 'Respect'; "
            "this scheduler knows Honor or Ignore",
        ),
        (
            spread(even(nodeAffinityPolicy="Respect")),
            "spec.topologySpreadConstraints[0].nodeAffinityPolicy is 'Respect'; "
            "this scheduler knows Honor or Ignore",
        ),
    ],
)
def test_what_the_api_does_not_allow_keeps_the_pod_waiting(spec: dict[str, Any], said: str) -> None:
    assert problem(spec) == said


def terms(count: int) -> dict[str, Any]:
    half = [term()] * (count // 2)
    both = near(*half)["affinity"] | far(*half, *[term()] * (count % 2))["affinity"]
    return {"affinity": both}


def constraints(count: int) -> dict[str, Any]:
    return spread(*[even()] * count)


def requirements(count: int) -> dict[str, Any]:
    lines = [line(f"k{number}", "Exists") for number in range(count)]
    return near(term(labelSelector={"matchExpressions": lines}))


def values(count: int) -> dict[str, Any]:
    names = [f"v{number}" for number in range(count - 1)]
    return near(term(namespaces=names))


def characters(count: int) -> dict[str, Any]:
    return far(term(namespaces=["n" * (count - len("appweb"))]))


def values_of_constraints(count: int) -> dict[str, Any]:
    names = [f"v{number}" for number in range(count)]
    return spread(even(labelSelector={"matchExpressions": [line("k", "In", *names)]}))


NEAR, FAR = "spec.affinity.podAffinity", "spec.affinity.podAntiAffinity"


@pytest.mark.parametrize(
    ("spec_of", "most", "said"),
    [
        (terms, MAX_TERMS, f"spec.affinity has {MAX_TERMS + 1} terms"),
        (
            constraints,
            MAX_CONSTRAINTS,
            f"spec.topologySpreadConstraints has {MAX_CONSTRAINTS + 1} constraints",
        ),
        (requirements, MAX_REQUIREMENTS, f"{NEAR} has {MAX_REQUIREMENTS + 1} requirements"),
        (values, MAX_VALUES, f"{NEAR} has {MAX_VALUES + 1} values"),
        (characters, MAX_CHARACTERS, f"{FAR} has {MAX_CHARACTERS + 1} characters"),
        (
            values_of_constraints,
            MAX_VALUES,
            f"spec.topologySpreadConstraints has {MAX_VALUES + 1} values",
        ),
    ],
)
def test_much_is_taken_and_beyond_it_the_limit_is_named(
    spec_of: Callable[[int], dict[str, Any]], most: int, said: str
) -> None:
    assert asked(spec_of(most)) is not None
    assert problem(spec_of(most + 1)).startswith(said)
