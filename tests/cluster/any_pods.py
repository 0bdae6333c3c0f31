"""Any placed pods, selectors and terms, and a count of them by hand."""

from collections.abc import Iterable

from hypothesis import strategies as st

from kubeshare_py.cluster.cluster_objects import ClusterObjects
from kubeshare_py.domain.cluster_objects import NamespaceObject, Requirement
from kubeshare_py.domain.pod import (
    AffinityTerm,
    HostPort,
    InterPodTerms,
    PlacedPod,
    PodSelector,
    WeightedTerm,
)

ROWS = 4
NAMESPACES = ("a", "b", "c")
VALUES = ("x", "y")
labels = st.lists(
    st.tuples(st.sampled_from(("app", "tier")), st.sampled_from(VALUES)),
    max_size=2,
    unique_by=lambda pair: pair[0],
).map(lambda pairs: tuple(sorted(pairs)))
requirements = st.builds(
    Requirement,
    st.sampled_from(("app", "tier", "other")),
    st.sampled_from(("In", "NotIn", "Exists", "DoesNotExist")),
    st.lists(st.sampled_from(VALUES), min_size=1, max_size=2, unique=True).map(tuple),
)
lines = st.lists(requirements, max_size=2).map(tuple)
selectors = st.builds(
    PodSelector,
    st.lists(st.sampled_from(NAMESPACES), max_size=2, unique=True).map(lambda x: tuple(sorted(x))),
    st.none() | lines,
    st.none() | lines,
)
affinity_terms = st.builds(AffinityTerm, selectors, st.sampled_from(("zone", "host")))
some_terms = st.lists(affinity_terms, max_size=2).map(tuple)
inter_pod_terms = st.builds(
    InterPodTerms,
    namespace=st.sampled_from(NAMESPACES),
    affinity=some_terms,
    anti_affinity=some_terms,
    preferred=st.lists(
        st.builds(WeightedTerm, affinity_terms, st.sampled_from((-3, 5))), max_size=1
    ).map(tuple),
)
ports = st.lists(st.builds(HostPort, st.sampled_from((80, 81))), max_size=2, unique=True)
placed_pods = st.builds(
    PlacedPod,
    namespace=st.sampled_from(NAMESPACES),
    labels=labels,
    terms=st.none() | inter_pod_terms,
    host_ports=ports.map(tuple),
    terminating=st.booleans(),
)
#: A pod is placed on a row, or the pod that was placed so many steps ago leaves.
steps = st.lists(st.tuples(st.integers(0, ROWS - 1), placed_pods | st.integers(0, 9)), max_size=25)


def namespaces(*labelled: tuple[str, str]) -> ClusterObjects:
    """Namespaces with a label `app`; others have none."""
    objects = ClusterObjects()
    for name, value in labelled:
        objects.put(NamespaceObject(name=name, labels=(("app", value),)))
    return objects


def holds(line: Requirement, found: dict[str, str]) -> bool:
    value = found.get(line.key)
    return {
        "In": value in line.values,
        "NotIn": value not in line.values,
        "Exists": value is not None,
        "DoesNotExist": value is None,
    }[line.operator]


def selects(one: PodSelector, pod: PlacedPod, of: dict[str, dict[str, str]]) -> bool:
    """Whether a selector selects a pod, by the rules, with the labels of namespaces."""
    if one.labels is None or not all(holds(line, dict(pod.labels)) for line in one.labels):
        return False
    wanted = one.namespace_selector
    if pod.namespace in one.namespaces or wanted == ():
        return True
    known = of.get(pod.namespace)
    if wanted is None or known is None:
        return False
    return all(holds(line, known) for line in wanted)


def count(pods: Iterable[tuple[int, PlacedPod]], chosen: object) -> list[int]:
    """How many pods on each row `chosen` says True of."""
    assert callable(chosen)
    found = [0] * ROWS
    for row, pod in pods:
        found[row] += bool(chosen(pod))
    return found
