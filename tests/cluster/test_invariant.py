"""The invariant of `Accounting`: every charged column, added up anew after any history."""

from collections import Counter
from collections.abc import Collection, Sequence

from hypothesis import given
from hypothesis import strategies as st

from kubeshare_py.cluster.charge import Charge
from kubeshare_py.cluster.columns import (
    ABSENT,
    CHARGED_COLUMNS,
    CORDONED,
    CROWDED,
    EXCLUDING,
    EXCLUSIVE,
    FOREIGN,
    HELD_BACK,
    PODS,
    PORTS,
    UNHEALTHY,
    Columns,
)
from kubeshare_py.cluster.ledger import Ledger
from kubeshare_py.cluster.overlay import Overlay
from kubeshare_py.domain.allocation import CardCharge
from kubeshare_py.domain.gpu import TagKind
from kubeshare_py.domain.identity import PodUid
from kubeshare_py.domain.quota import NATIVE_GPU
from kubeshare_py.topology.card_sets import PositionSet
from tests.cluster import history
from tests.cluster.history import STEPS, Step
from tests.cluster.test_what_if import COUNTS, NATIVE, after
from tests.scale import examples

Row = dict[str, object]
#: What `card` adds up.
OF_A_CARD = (
    "free_milli",
    "free_bytes",
    "tenants",
    "exclusive",
    "excluding",
    "flags",
    "headroom",
    "share_headroom",
    "idle",
)
GIVEN = ABSENT | UNHEALTHY | CORDONED | FOREIGN


def free_of(columns: Columns, row: int, charges: Sequence[Charge]) -> list[int]:
    left: list[int] = columns.allocatable[row].tolist()
    for charge in charges:
        for name, amount in charge.resources:
            if name in columns.resources:
                left[columns.resources[name]] -= amount
        left[PODS] -= 1
        left[PORTS] -= charge.allocation is not None and charge.allocation.port is not None
    return left


def needed(columns: Columns, row: int, charges: Sequence[Charge]) -> int:
    """How many idle cards native pods need."""
    held = [charge.native for charge in charges]
    whole = sum(one.unknown for one in held)
    column = columns.resources.get(NATIVE_GPU)
    advertised = 0 if column is None else int(columns.allocatable[row, column])
    if advertised:
        whole = min(whole, max(0, advertised - sum(one.picked for one in held)))
    return whole + min(sum(one.parts for one in held), int(columns.gpu_count[row]))


def card(columns: Columns, row: int, slot: int, parts: list[CardCharge]) -> dict[str, int]:
    """What is counted of a card, and what follows from it, HELD_BACK apart."""
    tagged = [part.tags for part in parts]
    found = {
        "free_milli": int(columns.capacity_milli[row, slot]) - sum(part.milli for part in parts),
        "free_bytes": int(columns.capacity_bytes[row, slot])
        - sum(part.memory_bytes for part in parts),
        "tenants": len(parts),
        "exclusive": sum(part.exclusive for part in parts),
        "excluding": sum(any(tag.kind is TagKind.EXCLUSION for tag in tags) for tags in tagged),
    }
    flags = int(columns.flags[row, slot]) & GIVEN
    flags |= EXCLUSIVE * (found["exclusive"] > 0) | EXCLUDING * (found["excluding"] > 0)
    flags |= CROWDED * (0 < columns.max_tenants[row, slot] <= found["tenants"])
    share_bytes, free_bytes = int(columns.share_bytes[row, slot]), found["free_bytes"]
    fitting = [milli for milli in range(1001) if milli * share_bytes // 1000 <= free_bytes]
    return found | {
        "flags": flags,
        "headroom": max(-1, min(found["free_milli"], max(fitting, default=-1))),
        "share_headroom": found["free_milli"],
        "idle": int(not parts),
    }


def added_up(
    columns: Columns, row: int, held: Sequence[Charge], reservations: Sequence[Charge]
) -> Row:
    """Every charged column of a row, from its charges and the columns that do not follow them."""
    charges = [*held, *reservations]
    uuids, slots = columns.uuids[row], range(len(columns.uuids[row]))

    def parts(of: Sequence[Charge], slot: int) -> list[CardCharge]:
        allocations = [charge.allocation for charge in of if charge.allocation is not None]
        return [one for each in allocations for one in each.cards if one.uuid == uuids[slot]]

    cards = [card(columns, row, slot, parts(charges, slot)) for slot in slots]
    native = needed(columns, row, charges)
    idle = [slot for slot in slots if not cards[slot]["flags"] and cards[slot]["idle"]]
    short = [slot for slot in slots if not cards[slot]["flags"] & ABSENT]
    for slot in short if len(idle) < native else idle[len(idle) - native :]:
        cards[slot]["flags"] |= HELD_BACK
    for one in cards:
        if one["flags"]:
            one.update(headroom=-1, share_headroom=-1, idle=0)
    reserved = [parts(reservations, slot) for slot in slots]
    found: Row = {name: [one[name] for one in cards] for name in OF_A_CARD}
    found["free"] = free_of(columns, row, charges)
    found["tag_set"] = [
        Counter(tag for one in parts(charges, slot) for tag in one.tags) for slot in slots
    ]
    found["reserved_milli"] = [sum(one.milli for one in waiting) for waiting in reserved]
    found["reserved_bytes"] = [sum(one.memory_bytes for one in waiting) for waiting in reserved]
    found["reservations"] = [len(waiting) for waiting in reserved]
    return found | node_of(columns, row, cards)


def node_of(columns: Columns, row: int, cards: Sequence[dict[str, int]]) -> Row:
    """The node's columns that follow from those of its cards, and the order of these."""
    bits = [int(columns.position_bit[row, slot]) for slot in range(len(cards))]
    idle = [slot for slot, one in enumerate(cards) if one["idle"]]
    whole = [slot for slot in idle if columns.capacity_milli[row, slot] >= 1000]
    board = columns.boards.sets[columns.board.item(row)]
    order = board.order(PositionSet(sum(bits[slot] for slot in whole)))
    place = {1 << position: at for at, position in enumerate(order, 1)}
    capacity = int(columns.gpu_capacity_milli[row])
    free = sum(one["free_milli"] for one in cards if not one["flags"] & ABSENT)
    used = min(capacity, capacity - free)
    return {
        "idle_cards": sum(bits[slot] for slot in idle),
        "break_order": [place.get(bits[slot], 0) for slot in range(len(cards))],
        "gpu_free_milli": free,
        "gpu_used_percent": used * 100 // capacity if capacity else 0,
    }


def shown(columns: Columns, row: int) -> Row:
    """Every charged column of a row as it is."""
    found: Row = {name: getattr(columns, name)[row].tolist() for name in CHARGED_COLUMNS}
    for name, values in found.items():
        if isinstance(values, list) and name != "free":
            found[name] = values[: len(columns.uuids[row])]
    numbers = columns.tag_set[row, : len(columns.uuids[row])].tolist()
    found["tag_set"] = [Counter(dict(columns.tag_sets.values[number])) for number in numbers]
    return found


def expect_invariant(ledger: Ledger, columns: Columns, gone: Collection[PodUid] = ()) -> None:
    """Of each row; the columns may be an overlay's, in which some pods are gone."""
    for name, row in columns.row_of.items():
        held = [charge for uid, charge in ledger.charges_on(name).items() if uid not in gone]
        reservations = [*ledger.reservations_on(name).values()]
        assert shown(columns, row) == added_up(columns, row, held, reservations), name


@examples(40)
@given(STEPS, COUNTS)
def test_charged_columns_are_what_the_charges_add_up_to(
    steps: list[Step], native: list[int]
) -> None:
    ledger = after(steps, native).ledger
    expect_invariant(ledger, ledger.columns)


@examples(30)
@given(STEPS, COUNTS, st.lists(st.sampled_from((*history.PODS, *NATIVE)), unique=True, max_size=5))
def test_those_of_an_overlay_are_what_the_remaining_charges_add_up_to(
    steps: list[Step], native: list[int], gone: set[PodUid]
) -> None:
    ledger = after(steps, native).ledger
    overlay = Overlay(ledger)
    for uid in sorted(gone):
        charge = ledger.charge_of(uid) or ledger.lingering.get(uid)
        row = None if charge is None else overlay.columns.row_of.get(charge.node)
        if charge is not None and row is not None:
            overlay.remove(row, charge)
    expect_invariant(ledger, overlay.columns, gone)
    expect_invariant(ledger, ledger.columns)


def test_every_charged_column_is_added_up() -> None:
    ledger = after([], [0, 1, 0, 0]).ledger
    assert {*added_up(ledger.columns, 0, (), ())} == {*CHARGED_COLUMNS}
