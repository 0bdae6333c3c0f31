"""Placed pods against a list of them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeshare_py.cluster import placed_pods
from kubeshare_py.cluster.overlay import PodsOverlay
from kubeshare_py.cluster.placed_pods import PlacedPods
from kubeshare_py.cluster.pod_kinds import HeldTerm, held_by
from kubeshare_py.domain.cluster_objects import NamespaceObject, Requirement
from kubeshare_py.domain.pod import AffinityTerm, InterPodTerms, PlacedPod, PodSelector
from tests.cluster.any_pods import ROWS, count, namespaces, selectors, selects, steps
from tests.making.calls import calls_of

Step = tuple[int, PlacedPod | int]
OF = {"a": {"app": "x"}, "b": {"app": "y"}}


class Books:
    """Placed pods, and the same as a list."""

    def __init__(self, spare_kinds: int = 4096) -> None:
        self.pods = PlacedPods(namespaces(("a", "x"), ("b", "y")), spare_kinds)
        self.there: list[tuple[int, PlacedPod]] = []
        self.pods.all = lambda: self.there

    def take(self, step: Step) -> None:
        row, what = step
        if isinstance(what, PlacedPod):
            self.there.append((row, what))
            self.pods.add(row, what, 1)
        elif what < len(self.there):
            row, pod = self.there.pop(what)
            self.pods.add(row, pod, -1)


@given(steps, st.lists(selectors, min_size=1, max_size=2), st.booleans(), st.integers(0, 25))
def test_counts_are_those_of_a_list(
    history: list[Step], asked: list[PodSelector], terminating: bool, first: int
) -> None:
    books = Books()
    for number, step in enumerate(history):
        books.take(step)
        if number >= first:
            expect_counts(books, tuple(asked), terminating)
    expect_counts(books, tuple(asked), terminating)


def expect_counts(books: Books, asked: tuple[PodSelector, ...], terminating: bool) -> None:
    def chosen(pod: PlacedPod) -> bool:
        return (terminating or not pod.terminating) and all(selects(one, pod, OF) for one in asked)

    found = books.pods.counts(asked, ROWS, terminating=terminating)
    assert found.tolist() == count(books.there, chosen)


@pytest.mark.slow
@given(steps, steps)
def test_terms_and_ports_are_those_of_a_list(history: list[Step], tried: list[Step]) -> None:
    books = Books()
    for step in history:
        books.take(step)
    overlay, there = PodsOverlay(books.pods, books.pods.objects), list(books.there)
    for row, what in tried:
        if isinstance(what, PlacedPod):
            overlay.add(row, what, 1)
            there.append((row, what))
        elif what < len(there):
            where, pod = there.pop(what)
            overlay.add(where, pod, -1)
    for table, pods in ((books.pods, books.there), (overlay, there)):
        for namespace, labels in (("a", (("app", "x"),)), ("b", ()), ("c", (("tier", "y"),))):
            probe = PlacedPod(namespace=namespace, labels=labels)
            wanted = {
                held: count(pods, lambda one, held=held: held in [*_held(one)])
                for _, pod in pods
                for held in _held(pod)
                if selects(held.term.selector, probe, OF)
            }
            found = {held: table.holders(held, ROWS) for held in table.selecting(namespace, labels)}
            assert {held: rows.tolist() for held, rows in found.items() if rows.any()} == {
                held: _sum(pods, held) for held in wanted
            }
        for row in range(ROWS):
            ports = [port for at, pod in pods if at == row for port in pod.host_ports]
            assert sorted(table.host_ports(row)) == sorted({*ports})


def _held(pod: PlacedPod) -> list[HeldTerm]:
    return [] if pod.terms is None else [*held_by(pod.terms)]


def _sum(pods: list[tuple[int, PlacedPod]], held: HeldTerm) -> list[int]:
    found = [0] * ROWS
    for row, pod in pods:
        found[row] += _held(pod).count(held)
    return found


@given(steps, steps, selectors)
def test_an_overlay_counts_what_is_tried_in_it(
    history: list[Step], tried: list[Step], asked: PodSelector
) -> None:
    books = Books()
    for step in history:
        books.take(step)
    overlay, there = PodsOverlay(books.pods, books.pods.objects), list(books.there)
    for row, what in tried:
        if isinstance(what, PlacedPod):
            overlay.add(row, what, 1)
            there.append((row, what))
    found = overlay.counts((asked,), ROWS, terminating=True)
    assert found.tolist() == count(there, lambda pod: selects(asked, pod, OF))
    overlay.clear()
    below = overlay.counts((asked,), ROWS, terminating=True)
    assert below.tolist() == count(books.there, lambda pod: selects(asked, pod, OF))


def test_labels_of_a_namespace_may_change() -> None:
    books = Books()
    books.take((1, PlacedPod(namespace="a")))
    asked = (PodSelector((), (), (Requirement("app", "In", ("z",)),)),)
    assert not books.pods.counts(asked, ROWS, terminating=True).any()
    books.pods.objects.put(NamespaceObject(name="a", labels=(("app", "z"),)))
    assert books.pods.counts(asked, ROWS, terminating=True).tolist() == [0, 1, 0, 0]


@pytest.mark.parametrize("asking", [True, False], ids=["with questions", "without"])
def test_kinds_of_pods_that_are_gone_are_forgotten(asking: bool) -> None:
    books = Books(spare_kinds=10)
    asked = (PodSelector(("a",), (Requirement("job", "Exists"),)),)
    books.pods.counts(asked, ROWS, terminating=True)
    for number in range(100):
        books.take((0, PlacedPod(namespace="a", labels=(("job", str(number)),))))
        if number > 2:
            books.take((0, 0))
        if asking:
            books.pods.counts(asked, ROWS, terminating=True)
    assert len(books.pods._kinds) < 40
    assert books.pods.is_counting, "what waits because of counts is still to be woken"
    assert books.pods.counts(asked, ROWS, terminating=True).tolist() == [3, 0, 0, 0]


def calls_to_find(namespace: str, terms: int) -> int:
    """How many calls it takes to find the terms that select a pod, of so many in `a`."""
    books = Books()
    for number in range(terms):
        selector = PodSelector(("a",), (Requirement(f"key-{number}", "NotIn", ("x",)),))
        far = InterPodTerms(namespace="a", anti_affinity=(AffinityTerm(selector, "zone"),))
        books.take((0, PlacedPod(namespace="a", terms=far)))
    found: list[HeldTerm] = []
    calls = calls_of(lambda: found.extend(books.pods.selecting(namespace, (("app", "x"),))))
    assert len(found) == (terms if namespace == "a" else 0)
    return calls


def calls_to_count(pods: int, selector: PodSelector) -> int:
    """How many calls it takes to count, of so many pods that all differ, those selected."""
    books = Books()
    for number in range(pods):
        labels = (("app", f"v{number}"), (f"key-{number}", "x"))
        books.take((0, PlacedPod(namespace=f"n{number}", labels=labels)))
        name = NamespaceObject(name=f"n{number}", labels=(("team", f"t{number}"),))
        books.pods.objects.put(name)
    first = (PodSelector((), (), ()),)
    books.pods.counts(first, ROWS, terminating=True)  # numbers the kinds
    of_teams = (PodSelector((), (), (Requirement("team", "Exists"),)),)
    books.pods.counts(of_teams, ROWS, terminating=True)  # reads the namespaces
    return calls_of(lambda: books.pods.counts((selector,), ROWS, terminating=True))


@pytest.mark.parametrize("operator", ["In", "NotIn", "Exists", "DoesNotExist"])
@pytest.mark.parametrize("key", ["app", "key-1", "unknown"])
def test_counting_asks_about_labels_and_not_about_pods(operator: str, key: str) -> None:
    values = () if operator.endswith("Exist") or operator == "Exists" else ("v1", "v2", "x")
    teams = (Requirement("team", "NotIn", ("t1",)),)
    selector = PodSelector((), (Requirement(key, operator, values),), teams)
    # Not exactly: a collection of garbage in between has calls of its own.
    assert calls_to_count(400, selector) < calls_to_count(4, selector) + 30


def test_terms_about_one_namespace_cost_pods_of_others_nothing() -> None:
    assert calls_to_find("b", 200) == calls_to_find("b", 2) < calls_to_find("a", 200)


def test_counts_that_fell_far_behind_are_made_anew() -> None:
    books = Books()
    asked = (PodSelector(("a",), ()),)
    books.pods.counts(asked, ROWS, terminating=True)
    for _ in range(3 * placed_pods.MAX_BEHIND):
        books.take((2, PlacedPod(namespace="a")))
    found = books.pods.counts(asked, ROWS, terminating=True)
    assert found.tolist() == [0, 0, 3 * placed_pods.MAX_BEHIND, 0]
    with pytest.raises(ValueError, match="read-only"):
        found += np.ones(ROWS, np.int64)


def test_questions_for_people_are_counted_apart() -> None:
    books = Books()
    books.take((1, PlacedPod(namespace="a")))
    reading = books.pods.for_reading()
    asked = (PodSelector(("a",), ()),)
    assert reading.counts(asked, ROWS, terminating=True).tolist() == [0, 1, 0, 0]
    assert not books.pods.is_counting
