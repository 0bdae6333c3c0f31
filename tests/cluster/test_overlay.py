"""An overlay after any tries shows what the ledger would; the ledger shows nothing of it."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kubeshare_py.cluster.charge import Charge
from kubeshare_py.cluster.columns import CARD_COLUMNS, CHARGED_COLUMNS
from kubeshare_py.cluster.ledger import Ledger
from kubeshare_py.cluster.overlay import Overlay
from kubeshare_py.domain.allocation import Allocation, CardCharge
from kubeshare_py.domain.gpu import CardTag, CardTags
from kubeshare_py.domain.identity import DecisionToken, GpuUuid, NodeName, PodUid
from tests.cluster.history import OURS, PODS, RED, RESERVED, STEPS, THEIRS, History, Step
from tests.cluster.reference_model import Held, ReferenceModel
from tests.making import a_gpu, a_node
from tests.scale import examples

N1, N2 = NodeName("n1"), NodeName("n2")
TRIES = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.booleans()), max_size=5)


def expect_books(overlay: Overlay, reference: ReferenceModel) -> None:
    """Each row shows what these books add up to, apart from slots of cards that left."""
    columns = overlay.columns
    for name, row in columns.row_of.items():
        free = reference.free(name)
        for resource, at in columns.resources.items():
            assert columns.free[row, at] == free.get(resource, 0), resource
        if name not in reference.nodes:
            continue
        totals = columns.gpu_free_milli[row], columns.gpu_used_percent[row]
        assert totals == reference.gpu_totals(name)[1:]
        for uuid in reference.known(name):
            slot = columns.uuids[row].index(GpuUuid(uuid))
            expected = {**reference.card(name, uuid), **reference.joined(name, uuid)}
            found = {column: getattr(columns, column)[row, slot].item() for column in expected}
            assert found == expected
            tags = columns.tag_sets.values[columns.tag_set.item(row, slot)]
            assert dict(tags) == reference.tags(name, uuid)


def expect_like_below(overlay: Overlay, ledger: Ledger) -> None:
    for column in (*CHARGED_COLUMNS, *CARD_COLUMNS):
        assert (getattr(overlay.columns, column) == getattr(ledger.columns, column)).all(), column
    assert overlay.columns.row_of is ledger.columns.row_of


def remove(overlay: Overlay, history: History, uids: set[PodUid]) -> None:
    """Leave reservations out, remove pods, and do so in the books."""
    held, left_out = history.reference.held, dict[int, list[Charge]]()
    for uid in sorted(uids & held.keys()):
        row = overlay.columns.row_of.get(held[uid].node)
        if row is not None and held[uid].is_reservation:
            left_out.setdefault(row, []).append(history.ledger.reservations[uid])
    overlay.leave_out(left_out)
    overlay.follow()
    for uid in sorted(uids & held.keys()):
        charge = history.ledger.charge_of(uid) or history.ledger.lingering.get(uid)
        row = overlay.columns.row_of.get(held[uid].node)
        if row is not None and charge is not None:
            overlay.remove(row, charge)
        del held[uid]


def place(overlay: Overlay, history: History, tries: list[tuple[int, int, bool]]) -> None:
    """Add pods, and do so in the books."""
    for number, (which, slot, exclusive) in enumerate(tries):
        names = sorted(history.reference.nodes)
        if not names:
            return
        name = names[which % len(names)]
        row = overlay.columns.row_of[name]
        slots = [slot] if slot < len(overlay.columns.uuids[row]) else []
        uuids = overlay.columns.uuids[row]
        cards = tuple(CardCharge(uuids[one], 100, 10, exclusive=exclusive) for one in slots)
        allocation = Allocation(token=DecisionToken(""), cards=cards)
        overlay.place(row, Charge(name, (("cpu", 7),), allocation), slots)
        history.reference.held[PodUid(f"try-{number}")] = Held(name, (("cpu", 7),), allocation)


@examples(150)
@given(STEPS, st.sets(st.sampled_from((*PODS, *RESERVED))), TRIES)
def test_what_is_tried_shows_as_if_it_were_so(
    steps: list[Step], gone: set[PodUid], tries: list[tuple[int, int, bool]]
) -> None:
    history = History()
    overlay = Overlay(history.ledger)
    for step in steps:
        history.step(step)
    overlay.follow()
    remove(overlay, history, gone)
    place(overlay, history, tries)
    expect_books(overlay, history.reference)


@examples(150)
@given(STEPS, STEPS, st.sets(st.sampled_from((*PODS, *RESERVED))), TRIES)
def test_nothing_of_a_try_is_left(
    steps: list[Step], more: list[Step], gone: set[PodUid], tries: list[tuple[int, int, bool]]
) -> None:
    history, told = History(), History()
    for step in steps:
        history.step(step)
        told.step(step)
    ledger = history.ledger
    overlay = Overlay(ledger)
    ends = [log.end for log in (ledger.changed, ledger.improved, ledger.relabelled)]
    remove(overlay, history, gone)
    place(overlay, history, tries)
    assert [log.end for log in (ledger.changed, ledger.improved, ledger.relabelled)] == ends
    history.reference = told.reference
    for step in more:
        history.step(step)
    overlay.leave_out({})
    overlay.follow()
    expect_like_below(overlay, ledger)


@examples(100)
@given(STEPS, STEPS, st.sets(st.sampled_from((*PODS, *RESERVED))))
def test_a_reader_of_the_log_sees_every_row_that_shows_something_else(
    steps: list[Step], more: list[Step], gone: set[PodUid]
) -> None:
    history = History()
    for step in steps:
        history.step(step)
    overlay = Overlay(history.ledger)
    for number, step in enumerate(more):
        history.step(step)
        layout, end = overlay.columns.layout, overlay.changed.end
        before = {name: getattr(overlay.columns, name).copy() for name in CHARGED_COLUMNS}
        if number % 3 == 2:
            trial = History()
            trial.ledger, trial.reference.held = history.ledger, {**history.reference.held}
            remove(overlay, trial, gone)
        else:
            overlay.follow()
        if overlay.columns.layout != layout:
            continue
        logged = overlay.changed.since(end, 9999)
        for name, was in before.items():
            now = getattr(overlay.columns, name)
            if logged is not None and now.shape == was.shape:
                same = np.delete(now == was, logged, axis=0)
                assert same.all(), name


def test_an_overlay_above_an_overlay_begins_with_what_is_tried_there() -> None:
    ledger = Ledger()
    ledger.put_node(a_node(N1))
    ledger.put_cards(N1, (a_gpu("a"), a_gpu("b")))
    lower = Overlay(ledger)
    row = ledger.columns.row_of[N1]
    allocation = Allocation(token=DecisionToken(""), cards=(CardCharge(a_gpu("a").uuid, 300, 0),))
    lower.place(row, Charge(N1, (), allocation), [0])
    upper = Overlay(lower)
    upper.place(row, Charge(N1, (), allocation), [0])
    found = [one.columns.free_milli.item(row, 0) for one in (ledger, lower, upper)]
    assert found == [1000, 700, 400]
    lower.follow()
    upper.follow()
    assert upper.columns.free_milli.item(row, 0) == 1000


def test_cards_kept_for_native_pods_change_with_what_is_tried() -> None:
    ledger = Ledger()
    ledger.put_node(a_node(N1))
    ledger.put_cards(N1, (a_gpu("a"), a_gpu("b")))
    row = ledger.columns.row_of[N1]
    ledger.charge(PodUid("native"), N1, (("nvidia.com/gpu", 1),), None)
    overlay = Overlay(ledger)
    assert overlay.columns.idle[row].tolist() == [1, 0]
    overlay.remove(row, Charge(N1, (("nvidia.com/gpu", 1),), None))
    assert (overlay.native_on(row).unknown, overlay.columns.idle[row].tolist()) == (0, [1, 1])
    assert (ledger.native_on(row).unknown, ledger.columns.idle[row].tolist()) == (1, [1, 0])


def test_a_left_out_native_pod_stays_left_out_when_other_rows_change() -> None:
    ledger = Ledger()
    for name in (N1, N2):
        ledger.put_node(a_node(name))
        ledger.put_cards(name, (a_gpu(f"{name}-a"), a_gpu(f"{name}-b")))
    ledger.reserve(PodUid("native"), N1, (("nvidia.com/gpu", 1),), None)
    row = ledger.columns.row_of[N1]
    overlay = Overlay(ledger)
    overlay.leave_out({row: [ledger.reservations[PodUid("native")]]})
    overlay.follow()
    ledger.charge(PodUid("other"), N2, (("cpu", 7),), None)
    overlay.follow()
    assert (ledger.native_on(row).unknown, overlay.native_on(row).unknown) == (1, 0)


def test_an_overlay_follows_one_that_copied_all_rows() -> None:
    ledger = Ledger()
    ledger.put_node(a_node(N1))
    lower = Overlay(ledger)
    upper, row = Overlay(lower), ledger.columns.row_of[N1]
    for _ in range(2100):
        ledger.charge(PodUid("p"), N1, (("cpu", 7),), None)
        ledger.release(PodUid("p"))
    ledger.charge(PodUid("p"), N1, (("cpu", 7),), None)
    lower.follow()
    upper.follow()
    assert upper.columns.free[row].tolist() == ledger.columns.free[row].tolist()


def tagged(uuid: str, tags: CardTags) -> Allocation:
    return Allocation(
        token=DecisionToken("t"), cards=(CardCharge(GpuUuid(uuid), 10, 10, tags=tags),)
    )


def tags_of(overlay: Overlay, name: NodeName) -> dict[CardTag, int]:
    columns = overlay.columns
    return dict(columns.tag_sets.values[columns.tag_set.item(columns.row_of[name], 0)])


def two_nodes() -> Ledger:
    ledger = Ledger()
    for name in (N1, N2):
        ledger.put_node(a_node(name))
        ledger.put_cards(name, (a_gpu(name),))
    return ledger


def test_tags_that_are_tried_get_no_number_in_the_ledger() -> None:
    ledger = two_nodes()
    overlay, row = Overlay(ledger), ledger.columns.row_of[N1]
    overlay.place(row, Charge(N1, (), tagged(N1, (RED,))), [0])
    assert tags_of(overlay, N1) == {RED: 1}
    assert ledger.columns.tag_sets.values == [()]
    overlay.follow()
    assert tags_of(overlay, N1) == {}


def test_tags_stay_right_where_a_reservation_is_left_out_while_the_ledger_goes_on() -> None:
    ledger = two_nodes()
    ledger.reserve(PodUid("r"), N1, (), tagged(N1, (RED,)))
    # The ledger has no number for this pod alone.
    ledger.charge(PodUid("p"), N1, (), tagged(N1, (RED, OURS)))
    overlay, row = Overlay(ledger), ledger.columns.row_of[N1]
    overlay.leave_out({row: [ledger.reservations[PodUid("r")]]})
    overlay.follow()
    assert tags_of(overlay, N1) == {RED: 1, OURS: 1}
    for number, tags in enumerate(((THEIRS,), (RED, THEIRS), (OURS, THEIRS))):
        ledger.charge(PodUid(f"q{number}"), N2, (), tagged(N2, tags))
        overlay.follow()
        assert tags_of(overlay, N1) == {RED: 1, OURS: 1}
    assert tags_of(overlay, N2) == {RED: 1, OURS: 1, THEIRS: 3}
