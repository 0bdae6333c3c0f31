"""Many pods at once are charged, reserved for and tried as one after the other."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kubeshare_py.cluster.charge import Charge, refusal
from kubeshare_py.cluster.ledger import Ledger
from kubeshare_py.cluster.overlay import Overlay
from kubeshare_py.domain.allocation import Allocation, CardCharge
from kubeshare_py.domain.identity import DecisionToken, PodUid
from kubeshare_py.domain.values import replace
from tests.cluster.history import NAMES, STEPS, History, Step
from tests.cluster.test_invariant import expect_invariant, shown
from tests.cluster.test_what_if import COUNTS, after
from tests.making import a_shape
from tests.scale import examples

#: The node, the card, its share, whether the pod is alone on it, and whether it takes a port.
Wish = tuple[int, int, int, bool, bool]
WISHES = st.lists(
    st.tuples(
        st.integers(0, 3),
        st.integers(0, 4),
        st.sampled_from((100, 500, 1000)),
        st.booleans(),
        st.booleans(),
    ),
    min_size=1,
    max_size=8,
)


def charges_of(ledger: Ledger, wishes: list[Wish]) -> dict[PodUid, Charge]:
    """A charge for each wish whose node is there; without a card if the node has too few."""
    found = {}
    for number, (which, slot, milli, exclusive, has_port) in enumerate(wishes):
        name = NAMES[which]
        row = ledger.columns.row_of.get(name)
        if row is None or ledger.columns.nodes[row] is None:
            continue
        uuids = ledger.columns.uuids[row]
        there = [CardCharge(one, milli, milli // 2, exclusive=exclusive) for one in uuids]
        cards = tuple(there[slot : slot + 1])
        port = 50051 + number if has_port else None
        allocation = Allocation(token=DecisionToken(f"t-{number}"), cards=cards, port=port)
        resources = (("cpu", 300),) if number % 2 else (("cpu", 300), ("memory", 1 << 30))
        found[PodUid(f"new-{number}")] = Charge(name, resources, allocation)
    return found


def is_refused(ledger: Ledger, charge: Charge) -> bool:
    """Whether the ledger refuses the charge as it is now."""
    columns, held = ledger.columns, charge.allocation
    port = held is not None and held.port is not None
    row = columns.row_of[charge.node]
    return refusal(columns, row, charge.resources, held, port) is not None


def charge_one_by_one(ledger: Ledger, charges: dict[PodUid, Charge]) -> bool:
    """Charge pods while the ledger refuses none; whether all are charged."""
    for uid, one in charges.items():
        if is_refused(ledger, one):
            return False
        ledger.charge(uid, one.node, one.resources, one.allocation)
    return True


def charge_at_once(ledger: Ledger, charges: dict[PodUid, Charge]) -> bool:
    """Charge all pods, if the ledger says that it can be done at once."""
    if not ledger.has_room_for(ledger.columns, charges.values()):
        return False
    for one in charges.values():
        if one.allocation is not None and one.allocation.port is not None:
            ledger.take_port(one.node, one.allocation.port)
    ledger.charge_each(charges)
    return True


def expect_same(one: Ledger, other: Ledger) -> None:
    for row in one.columns.row_of.values():
        assert shown(one.columns, row) == shown(other.columns, row)
    for name in NAMES:
        assert one.pods_on(name) == other.pods_on(name)
        assert one.next_port(name) == other.next_port(name)
    assert one.reservations == other.reservations
    assert one.overdrafts.unchecked == other.overdrafts.unchecked
    logs = zip((one.changed, one.improved), (other.changed, other.improved), strict=True)
    assert all(mine.end == theirs.end for mine, theirs in logs)


@examples(25)
@given(STEPS, COUNTS, WISHES)
def test_what_is_charged_at_once_is_as_if_charged_one_by_one(
    steps: list[Step], native: list[int], wishes: list[Wish]
) -> None:
    one, other = after(steps, native).ledger, after(steps, native).ledger
    charges = charges_of(one, wishes)
    if charge_at_once(one, charges):
        assert charge_one_by_one(other, charges)
        expect_invariant(one, one.columns)
        expect_same(one, other)


def has_room(ledger: Ledger, *wishes: Wish) -> bool:
    """Whether there is room for these pods at once."""
    return ledger.has_room_for(ledger.columns, charges_of(ledger, list(wishes)).values())


def test_a_card_has_room_for_several_pods_or_for_one_alone() -> None:
    history = History()
    history.begin()
    ledger = history.ledger
    half, alone = (0, 1, 500, False, False), (0, 1, 500, True, False)
    assert has_room(ledger, half, half)
    assert not has_room(ledger, half, half, half), "in all it is more than a card"
    assert has_room(ledger, alone)
    assert not has_room(ledger, half, alone)
    assert not has_room(ledger, alone, alone)
    ledger.charge_each(charges_of(ledger, [half]))
    assert has_room(ledger, half)
    assert not has_room(ledger, alone), "another pod holds a part"


def test_a_card_with_a_flag_has_no_room() -> None:
    history = History()
    history.begin()
    ledger = history.ledger
    wish = (0, 1, 100, False, False)
    assert has_room(ledger, wish)
    sick = tuple(replace(gpu, healthy=gpu.index != 1) for gpu in ledger.inventory[NAMES[0]])
    ledger.put_cards(NAMES[0], sick)
    assert not has_room(ledger, wish)


def test_a_pod_cannot_take_a_card_twice() -> None:
    history = History()
    history.begin()
    ledger = history.ledger
    [(uid, charge)] = charges_of(ledger, [(0, 1, 100, False, False)]).items()
    assert charge.allocation is not None
    (card,) = charge.allocation.cards
    twice = replace(charge.allocation, cards=(card, card))
    charges = {uid: Charge(charge.node, charge.resources, twice)}
    assert is_refused(ledger, charges[uid])
    assert not ledger.has_room_for(ledger.columns, charges.values())


def test_what_the_kubelet_picks_is_not_decided_at_once() -> None:
    ledger = after([], [1, 0, 0, 0]).ledger
    assert not has_room(ledger, (1, 1, 100, False, False))


@examples(25)
@given(WISHES)
def test_where_nothing_stands_in_the_way_all_that_fits_is_charged_at_once(
    wishes: list[Wish],
) -> None:
    histories = History(), History()
    for history in histories:
        history.begin()
    one, other = (history.ledger for history in histories)
    charges = charges_of(one, wishes)
    assert charge_at_once(one, charges) is charge_one_by_one(other, charges)


@examples(25)
@given(STEPS, COUNTS, WISHES)
def test_places_reserved_at_once_are_as_if_reserved_one_by_one(
    steps: list[Step], native: list[int], wishes: list[Wish]
) -> None:
    one, other = after(steps, native).ledger, after(steps, native).ledger
    places = charges_of(one, wishes)
    one.reserve_each(places)
    for uid, place in places.items():
        other.reserve(uid, place.node, place.resources, place.allocation)
    expect_invariant(one, one.columns)
    expect_same(one, other)


@examples(25)
@given(STEPS, COUNTS, WISHES)
def test_pods_of_one_shape_are_tried_on_several_rows_as_one_by_one(
    steps: list[Step], native: list[int], wishes: list[Wish]
) -> None:
    ledger = after(steps, native).ledger
    by_row = {ledger.columns.row_of[one.node]: one for one in charges_of(ledger, wishes).values()}
    shape = a_shape(cpu=300)
    one, other = Overlay(ledger), Overlay(ledger)
    rows, cards, slots = [*by_row], [], []
    for row, charge in by_row.items():
        assert charge.allocation is not None
        cards.append(charge.allocation.cards)
        slots.append([ledger.columns.uuids[row].index(card.uuid) for card in cards[-1]])
    if rows and len({len(of_pod) for of_pod in cards}) == 1:
        one.count_each(rows, slots, shape, cards)
    else:
        rows = []
    for row, where, of_pod in zip(rows, slots, cards, strict=False):
        allocation = Allocation(token=DecisionToken(""), cards=of_pod)
        other.place(row, Charge(by_row[row].node, shape.charged, allocation), where)
    for row in ledger.columns.row_of.values():
        assert shown(one.columns, row) == shown(other.columns, row)
    assert np.array_equal(np.sort(one.differing()), np.sort(other.differing()))
    one.follow()
    for row in ledger.columns.row_of.values():
        assert shown(one.columns, row) == shown(ledger.columns, row)
